// WireTap: a socket between a server and PostgreSQL that records the round trips of each connection.
//
// A client waits after it sends Sync or a simple query, so each of these is a round trip. The texts of the statements
// before it are recorded with it; a prepared statement has its text in the first one only.

import Foundation
import ServerTestSupport
import Synchronization
import TidelineTestKit

final class WireTap: Sendable {
    /// The texts that were sent on a connection between two waits for responses, for all connections.
    private let trips = Mutex<[[[String]]]>([])
    private let listener: Int32
    private let directory: String
    private let target: String
    let url: String

    /// Listens in front of the cluster's database in an address.
    init(to url: String) throws {
        let cluster = String(url.split(separator: "host=").last ?? "")
        target = cluster + "/.s.PGSQL.5432"
        directory = "/tmp/tideline-tap-\(UUID().uuidString.prefix(8).lowercased())"
        try FileManager.default.createDirectory(
            atPath: directory,
            withIntermediateDirectories: true
        )
        self.url = url.replacing(cluster, with: directory)
        listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        let bound = Self.withAddress(directory + "/.s.PGSQL.5432") { [listener] in
            bind(listener, $0, $1)
        }
        guard bound == 0, listen(listener, 64) == 0 else {
            throw PostgresCluster.Missing(description: "no tap: \(errno)")
        }
        Thread.detachNewThread { [self] in acceptAll() }
    }

    func stop() {
        shutdown(listener, Int32(SHUT_RDWR))
        close(listener)
        try? FileManager.default.removeItem(atPath: directory)
    }

    /// The transactions of writers so far: the texts of each of their round trips.
    ///
    /// They start with a BEGIN that names this isolation level, which no other transaction does.
    var transactions: [[String]] {
        var found: [[String]] = []
        for connection in trips.withLock({ $0 }) {
            var isOpen = false
            for trip in connection {
                if trip.first?.hasPrefix("BEGIN ISOLATION LEVEL READ COMMITTED") == true {
                    isOpen = true
                    found.append([])
                }
                if isOpen { found[found.count - 1].append(trip.joined(separator: "; ")) }
                if trip.contains("COMMIT") || trip.contains("ROLLBACK") { isOpen = false }
            }
        }
        return found
    }

    private static func withAddress(
        _ path: String,
        _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
    ) -> Int32 {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
        let size = socklen_t(MemoryLayout<sockaddr_un>.size)
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, size) }
        }
    }

    private func acceptAll() {
        while true {
            let client = accept(listener, nil, nil)
            guard client >= 0 else { return }
            let server = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
            guard Self.withAddress(target, { connect(server, $0, $1) }) == 0 else {
                close(client)
                close(server)
                continue
            }
            let index = trips.withLock { trips in
                trips.append([])
                return trips.count - 1
            }
            Thread.detachNewThread { [self] in
                var reader = TripReader()
                Self.pass(from: client, to: server) { bytes in
                    let found = reader.take(bytes)
                    if !found.isEmpty { trips.withLock { $0[index] += found } }
                }
            }
            Thread.detachNewThread { Self.pass(from: server, to: client) { _ in } }
        }
    }

    /// Runs until one of the two sides ends; a message is recorded before it is forwarded.
    private static func pass(
        from source: Int32,
        to target: Int32,
        _ note: (ArraySlice<UInt8>) -> Void
    ) {
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        loop: while true {
            let count = read(source, &buffer, buffer.count)
            guard count > 0 else { break }
            note(buffer[..<count])
            var sent = 0
            while sent < count {
                let part = buffer[sent..<count].withUnsafeBytes { bytes in
                    write(target, bytes.baseAddress, bytes.count)
                }
                guard part > 0 else { break loop }
                sent += part
            }
        }
        shutdown(source, Int32(SHUT_RDWR))
        shutdown(target, Int32(SHUT_RDWR))
    }
}

/// The messages of a client, however they are split into pieces.
private struct TripReader {
    private var buffer: [UInt8] = []
    private var hasBegun = false
    private var texts: [String] = []

    /// The round trips that end in these bytes, each with the texts of its statements.
    mutating func take(_ bytes: ArraySlice<UInt8>) -> [[String]] {
        buffer += bytes
        var trips: [[String]] = []
        while true {
            // The first message has no type.
            let head = hasBegun ? 1 : 0
            guard buffer.count >= head + 4 else { return trips }
            let length = buffer[head..<head + 4].reduce(0) { $0 << 8 | Int($1) }
            guard buffer.count >= head + length else { return trips }
            let body = buffer[(head + 4)..<(head + length)]
            let type = hasBegun ? buffer[0] : 0
            hasBegun = true
            switch type {
            case UInt8(ascii: "P"):
                let parts = body.split(separator: 0, maxSplits: 2, omittingEmptySubsequences: false)
                if parts.count > 1 { texts.append(String(decoding: parts[1], as: UTF8.self)) }
            case UInt8(ascii: "Q"):
                texts.append(String(decoding: body.dropLast(), as: UTF8.self))
                fallthrough
            case UInt8(ascii: "S"):
                trips.append(texts)
                texts = []
            default: break
            }
            buffer.removeFirst(head + length)
        }
    }
}
