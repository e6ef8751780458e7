// FaultyServer: an HTTP/1.1 server on loopback that cuts, resets, delays and truncates.
//
// It uses blocking POSIX sockets and a thread per connection, and shares no code with the tested
// transport. The path of a request selects the fault; see FaultyConnection.

import Foundation
import Synchronization

final class FaultyServer: Sendable {
    /// A request, as far as it arrived.
    struct Attempt: Sendable {
        var connection: Int
        var bodyBytes: Int
        var announcedBytes: Int
    }

    static let shared = FaultyServer()

    let port: Int
    private let listener: Int32
    private let attempts = Mutex<[String: [Attempt]]>([:])
    /// The tests that wait for a request, by its id.
    private let waiting = Mutex<[String: CheckedContinuation<Void, Never>]>([:])

    init() {
        listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var yes: Int32 = 1
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        port = Self.bindToLoopback(listener)
        listen(listener, 512)
        let server = self
        Thread.detachNewThread { server.acceptAll() }
    }

    func url(_ path: String, scheme: String = "http") -> URL {
        guard let url = URL(string: "\(scheme)://127.0.0.1:\(port)\(path)") else {
            preconditionFailure("a test wrote a path that is no URL: \(path)")
        }
        return url
    }

    /// Rejects all further connections.
    func stopListening() {
        shutdown(listener, Int32(SHUT_RDWR))
    }

    func attempts(of id: String) -> [Attempt] {
        attempts.withLock { $0[id] ?? [] }
    }

    /// Returns when a request with this id has arrived.
    func arrival(of id: String) async {
        await withCheckedContinuation { continuation in
            waiting.withLock { $0[id] = continuation }
            if !attempts(of: id).isEmpty { resume(id) }
        }
    }

    private func resume(_ id: String) {
        waiting.withLock { $0.removeValue(forKey: id) }?.resume()
    }

    /// Records a request; returns its index among the requests with the same id.
    func begin(_ id: String, _ attempt: Attempt) -> Int {
        defer { resume(id) }
        return attempts.withLock { all in
            all[id, default: []].append(attempt)
            return all[id, default: []].count - 1
        }
    }

    func note(_ id: String, _ index: Int, bodyBytes: Int) {
        attempts.withLock { $0[id]?[index].bodyBytes = bodyBytes }
    }

    private func acceptAll() {
        var count = 0
        while true {
            let client = accept(listener, nil, nil)
            guard client >= 0 else {
                close(listener)
                return
            }
            count += 1
            let number = count
            Thread.detachNewThread { FaultyConnection(client, number, self).serve() }
        }
    }

    static func bindToLoopback(_ descriptor: Int32) -> Int {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        return withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
                precondition(bind(descriptor, generic, size) == 0, "no port on loopback")
                getsockname(descriptor, generic, &size)
            }
            return Int(UInt16(bigEndian: pointer.pointee.sin_port))
        }
    }
}
