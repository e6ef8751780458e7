// RawClient: a blocking socket that sends bytes unchanged, and parses responses strictly.

import Foundation
package import TidelineCore
package import TidelineHTTP
package import TidelineServerCore
package import TidelineTLS

package struct RawAnswer: Sendable {
    package var status: Int
    package var headers: HTTPFields
    package var body: [UInt8]

    package var text: String { String(decoding: body, as: UTF8.self) }
}

package struct RawClientError: Error, CustomStringConvertible {
    package var description: String
    package var systemError: Int32 = 0

    package init(description: String, systemError: Int32 = 0) {
        self.description = description
        self.systemError = systemError
    }
}

/// A blocking client with a timeout of ten seconds for each step.
package final class RawClient {
    private let socket: Int32
    private var tls: RawTLS?
    private var buffer: [UInt8] = []

    /// Connects; `receiveBuffer` limits how many bytes the system buffers.
    package init(
        port: Int,
        host: String = "127.0.0.1",
        receiveBuffer: Int32? = nil,
        overTLS: Bool = false
    ) throws {
        let isSix = host.contains(":")
        socket = Foundation.socket(isSix ? AF_INET6 : AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var patience = timeval(tv_sec: 10, tv_usec: 0)
        let size = socklen_t(MemoryLayout<timeval>.size)
        setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, size)
        setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, size)
        if var receiveBuffer {
            setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &receiveBuffer, 4)
        }
        var one: Int32 = 1
        setsockopt(socket, Int32(IPPROTO_TCP), TCP_NODELAY, &one, 4)
        guard Self.connect(socket, port: UInt16(port), host: host) == 0 else {
            // The initializer is complete, so deinit closes the socket: closing it twice would hit another one.
            throw RawClientError(description: "connect", systemError: errno)
        }
        if overTLS { tls = try RawTLS(on: socket) }
    }

    deinit { close(socket) }

    private static func connect(_ socket: Int32, port: UInt16, host: String) -> Int32 {
        if host.contains(":") {
            var address = sockaddr_in6()
            address.sin6_family = sa_family_t(AF_INET6)
            address.sin6_port = port.bigEndian
            inet_pton(AF_INET6, host, &address.sin6_addr)
            return withUnsafeBytes(of: &address) { bytes in
                bytes.withMemoryRebound(to: sockaddr.self) {
                    Foundation.connect(socket, $0.baseAddress, socklen_t(bytes.count))
                }
            }
        }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        inet_pton(AF_INET, host, &address.sin_addr)
        return withUnsafeBytes(of: &address) { bytes in
            bytes.withMemoryRebound(to: sockaddr.self) {
                Foundation.connect(socket, $0.baseAddress, socklen_t(bytes.count))
            }
        }
    }

    package func send(_ text: String) throws { try send(Array(text.utf8)) }

    package func send(_ bytes: [UInt8]) throws {
        if let tls { return try tls.send(bytes) }
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                Foundation.send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { throw RawClientError(description: "send", systemError: errno) }
            rest = rest.dropFirst(count)
        }
    }

    /// Shuts down the sending side.
    package func finishSending() {
        tls?.finishSending()
        shutdown(socket, Int32(SHUT_WR))
    }

    /// Closes the connection so that the peer receives a reset.
    package func abort() {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(socket, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    }

    /// The next response, or nil if the connection ended before one.
    package func answer(toHead isHead: Bool = false) throws -> RawAnswer? {
        let end: [UInt8] = [13, 10, 13, 10]
        var headCount: Int?
        while headCount == nil {
            if let range = buffer.firstRange(of: end) {
                headCount = range.upperBound
            } else if try !receive() {
                guard buffer.isEmpty else {
                    throw RawClientError(
                        description: "cut head: \(String(decoding: buffer, as: UTF8.self))"
                    )
                }
                return nil
            }
        }
        let head = String(decoding: buffer[..<(headCount ?? 0)], as: UTF8.self)
        buffer.removeFirst(headCount ?? 0)
        var lines = head.components(separatedBy: "\r\n")[...]
        let status = Int(lines.removeFirst().split(separator: " ").dropFirst().first ?? "") ?? 0
        var headers = HTTPFields()
        for line in lines where !line.isEmpty {
            let parts = line.split(separator: ":", maxSplits: 1)
            headers.append(String(parts[0]), parts[1].trimmingCharacters(in: .whitespaces))
        }
        let isBodiless = isHead || status < 200 || status == 204 || status == 304
        guard let count = isBodiless ? 0 : Int(headers["Content-Length"] ?? "none") else {
            throw RawClientError(description: "no Content-Length: \(head)")
        }
        while buffer.count < count {
            guard try receive() else { throw RawClientError(description: "cut body") }
        }
        let body = Array(buffer[..<count])
        buffer.removeFirst(count)
        return RawAnswer(status: status, headers: headers, body: body)
    }

    /// The bytes until the connection ends.
    package func rest() throws -> String {
        while try receive() {}
        return String(decoding: buffer, as: UTF8.self)
    }

    /// Sends one request and reads its response.
    package func ask(_ text: String) throws -> RawAnswer {
        try send(text)
        guard let answer = try answer() else { throw RawClientError(description: "no answer") }
        return answer
    }

    /// Returns false if the connection has ended, with or without an error.
    private func receive() throws -> Bool {
        var chunk = [UInt8](repeating: 0, count: 64 << 10)
        let count = tls?.receive(&chunk) ?? recv(socket, &chunk, chunk.count, 0)
        if count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) {
            throw RawClientError(description: "no byte in ten seconds", systemError: errno)
        }
        guard count > 0 else { return false }
        buffer.append(contentsOf: chunk[..<count])
        return true
    }
}

/// Runs blocking code on a separate thread, so that the tests' pool stays free.
package func blocking<Result: Sendable>(
    _ body: @escaping @Sendable () throws -> Result
) async throws -> Result {
    try await withCheckedThrowingContinuation { continuation in
        Thread { continuation.resume(with: Swift.Result { try body() }) }.start()
    }
}

/// Starts a server, runs `body` with its port on a separate thread, and drains the server.
package func withServer<Result: Sendable>(
    limits: HTTPLimits = HTTPLimits(),
    loops: Int = 2,
    tls: TLSIdentity? = nil,
    traffic: ServerTraffic? = nil,
    handler: @escaping @Sendable (ServerRequest) async -> ServerResponse = echo,
    body: @escaping @Sendable (Int) throws -> Result
) async throws -> Result {
    let server = HTTPServer(
        host: "127.0.0.1",
        port: 0,
        limits: limits,
        loops: loops,
        ids: RequestIDs(prefix: "request"),
        traffic: traffic ?? ServerTraffic(answersBytesMax: limits.answersBytesMax),
        tls: tls,
        rejected: { _, _ in },
        handler: handler
    )
    let port = try server.start()
    do {
        let result = try await blocking { try body(port) }
        await server.drain()
        return result
    } catch {
        await server.drain()
        throw error
    }
}

/// Responds with what arrived: a line each for the request, the header fields, and the body.
@Sendable package func echo(_ request: ServerRequest) async -> ServerResponse {
    var text = "\(request.method)|\(request.path)|\(request.query)\n"
    for field in request.headers { text += "\(field.name)=\(field.value)\n" }
    text += "body=\(request.body.count):\(checksum(request.body))\n"
    return ServerResponse(
        status: 200,
        headers: ["Content-Type": "text/plain"],
        body: Array(text.utf8)
    )
}

package func checksum(_ bytes: [UInt8]) -> UInt64 {
    bytes.reduce(14_695_981_039_346_656_037) { ($0 ^ UInt64($1)) &* 1_099_511_628_211 }
}

package func get(_ target: String, _ headers: String = "") -> String {
    "GET \(target) HTTP/1.1\r\nHost: a\r\n\(headers)\r\n"
}
