// RawConnection: a blocking socket for things that an HTTP client would not do. Each step has a timeout of ten seconds;
// use it inside `blocking`.

import Foundation

final class RawConnection {
    private let socket: Int32

    /// Connects; `receiveBuffer` limits how many bytes the system buffers.
    init(port: Int, receiveBuffer: Int32? = nil) throws {
        socket = Foundation.socket(AF_INET, Loopback.stream, 0)
        var patience = timeval(tv_sec: 10, tv_usec: 0)
        let size = socklen_t(MemoryLayout<timeval>.size)
        setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, size)
        setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, size)
        if var receiveBuffer {
            setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &receiveBuffer, 4)
        }
        guard Loopback.connect(socket, port: port) else {
            // The initializer is complete, so deinit closes the socket: closing it twice would hit another one.
            throw TestFailure("connect: \(String(cString: strerror(errno)))")
        }
    }

    deinit { close(socket) }

    func send(_ text: String) throws { try send(Array(text.utf8)) }

    func send(_ bytes: [UInt8]) throws {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                Foundation.send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { throw TestFailure("send: errno \(errno)") }
            rest = rest.dropFirst(count)
        }
    }

    /// Shuts down the sending side.
    func finishSending() { shutdown(socket, Int32(SHUT_WR)) }

    /// Makes the connection end with a reset when it is deinitialized.
    func abort() {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(socket, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    }

    /// The next bytes; empty at the end of the connection.
    func receive(atMost limit: Int = 64 << 10) throws -> [UInt8] {
        var chunk = [UInt8](repeating: 0, count: limit)
        let count = recv(socket, &chunk, limit, 0)
        guard count >= 0 else { throw TestFailure("receive: errno \(errno)") }
        return Array(chunk[..<count])
    }

    /// Everything up to the end of the connection.
    func rest() throws -> [UInt8] {
        var bytes: [UInt8] = []
        while true {
            let chunk = try receive()
            guard !chunk.isEmpty else { return bytes }
            bytes += chunk
        }
    }
}

/// Sockets on 127.0.0.1.
enum Loopback {
    static let stream = Int32(SOCK_STREAM.rawValue)

    static func connect(_ socket: Int32, port: Int) -> Bool {
        withAddress(port: port) { Foundation.connect(socket, $0, $1) } == 0
    }

    /// A socket that listens on a port that the system chose.
    static func listen() throws -> (socket: Int32, port: Int) {
        let socket = Foundation.socket(AF_INET, stream, 0)
        guard withAddress(port: 0, { bind(socket, $0, $1) }) == 0,
            Foundation.listen(socket, 64) == 0
        else { throw TestFailure("listen: errno \(errno)") }
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        withUnsafeMutableBytes(of: &address) { bytes in
            _ = bytes.withMemoryRebound(to: sockaddr.self) {
                getsockname(socket, $0.baseAddress, &length)
            }
        }
        return (socket, Int(UInt16(bigEndian: address.sin_port)))
    }

    /// Whether a process listens on the port.
    static func accepts(port: Int) -> Bool {
        let socket = Foundation.socket(AF_INET, stream, 0)
        defer { close(socket) }
        return connect(socket, port: port)
    }

    private static func withAddress(
        port: Int,
        _ body: (UnsafePointer<sockaddr>?, socklen_t) -> Int32
    ) -> Int32 {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        inet_pton(AF_INET, "127.0.0.1", &address.sin_addr)
        return withUnsafeBytes(of: &address) { bytes in
            bytes.withMemoryRebound(to: sockaddr.self) {
                body($0.baseAddress, socklen_t(bytes.count))
            }
        }
    }
}
