// Listeners: many callers of /$events in one process, to measure the delay of their events.

#if os(Linux)
import CWatch
import Foundation
import Glibc

/// A set of blocking sockets with one epoll, so that 10,000 cost little compared with the server.
final class Listeners {
    private let port: UInt16
    private let epoll = epoll_create1(0)
    private var sockets: [Int32] = []
    private let writer: Int32

    init(_ url: String, writesTo other: String) throws {
        port = try Self.port(of: url)
        writer = try Self.connect(Self.port(of: other))
    }

    private static func port(of url: String) throws -> UInt16 {
        guard let port = URL(string: url)?.port.flatMap(UInt16.init(exactly:)) else {
            throw BenchError("a URL with a port is expected, not \(url)")
        }
        return port
    }

    /// Opens this number of streams, and reads their first bytes.
    func open(_ count: Int) throws {
        let request = Array("GET /$events?tables=TodoItem HTTP/1.1\r\nHost: a\r\n\r\n".utf8)
        var limit = rlimit(rlim_cur: 0, rlim_max: 0)
        let files = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        getrlimit(files, &limit)
        limit.rlim_cur = limit.rlim_max
        setrlimit(files, &limit)
        for _ in 0..<count {
            let socket = try Self.connect(port)
            guard send(socket, request, request.count, 0) == request.count else {
                throw BenchError("a stream could not be asked for: errno \(errno)")
            }
            let opening = try Self.text(socket, upTo: "\n\n")
            guard opening.hasPrefix("HTTP/1.1 200") else {
                throw BenchError("no stream: \(opening.prefix(60))")
            }
            guard bench_watch(epoll, socket) == 0 else { throw BenchError("errno \(errno)") }
            sockets.append(socket)
        }
    }

    /// Writes at intervals, and prints the time from each write until its event arrived.
    func measure(commits: Int) throws {
        var times: [Double] = []
        for number in 0..<commits {
            usleep(100_000)
            let start = ContinuousClock.now
            try write(number)
            try collect(since: start, &times)
        }
        times.sort()
        for (name, share) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
            let place = min(times.count - 1, Int(Double(times.count) * share))
            Bench.report("live \(sockets.count) listeners \(name)", times[place] * 1e6, "us")
        }
    }

    /// How long this process lets events wait, so that it takes less processor time from the server.
    private static let restMicroseconds: UInt32 = 500

    /// Writes one row.
    ///
    /// The time of its events counts from the moment it is sent.
    private func write(_ number: Int) throws {
        let body = "{\"text\":\"\(number)\"}"
        let request = Array(
            """
            POST /tables/TodoItem HTTP/1.1\r
            Host: a\r
            Content-Type: application/json\r
            Content-Length: \(body.utf8.count)\r
            \r
            \(body)
            """.utf8
        )
        guard send(writer, request, request.count, 0) == request.count else {
            throw BenchError("the write could not be sent: errno \(errno)")
        }
    }

    /// Waits until each listener has its event.
    private func collect(since start: ContinuousClock.Instant, _ times: inout [Double]) throws {
        var heard = 0
        var events = [epoll_event](repeating: epoll_event(), count: 512)
        var buffer = [UInt8](repeating: 0, count: 4096)
        while heard < sockets.count {
            let count = epoll_wait(epoll, &events, Int32(events.count), 10_000)
            guard count > 0 else { throw BenchError("\(sockets.count - heard) got no event") }
            for event in events[..<Int(count)] {
                let bytes = recv(event.data.fd, &buffer, buffer.count, 0)
                guard bytes > 0 else { throw BenchError("a stream has ended") }
                // A keep-alive is three bytes.
                guard bytes > 3 else { continue }
                heard += 1
                times.append((ContinuousClock.now - start).seconds)
            }
            // In production the callers are many machines. If this process woke up for each event, it would
            // use the server's cores.
            if heard < sockets.count { usleep(Self.restMicroseconds) }
        }
        _ = try Self.text(writer, upTo: "\r\n\r\n")
    }

    private static func connect(_ port: UInt16) throws -> Int32 {
        let socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        inet_pton(AF_INET, "127.0.0.1", &address.sin_addr)
        let result = withUnsafeBytes(of: &address) { bytes in
            bytes.withMemoryRebound(to: sockaddr.self) {
                Glibc.connect(socket, $0.baseAddress, socklen_t(bytes.count))
            }
        }
        guard socket >= 0, result == 0 else { throw BenchError("connect: errno \(errno)") }
        return socket
    }

    private static func text(_ socket: Int32, upTo end: String) throws -> String {
        var text = ""
        var buffer = [UInt8](repeating: 0, count: 4096)
        while !text.contains(end) {
            let count = recv(socket, &buffer, buffer.count, 0)
            guard count > 0 else { throw BenchError("the connection has ended") }
            text += String(decoding: buffer[..<count], as: UTF8.self)
        }
        return text
    }
}
#endif
