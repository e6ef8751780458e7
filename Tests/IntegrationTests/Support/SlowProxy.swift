// SlowProxy: a TCP proxy on loopback that delays, splits, and cuts off data; or calls a closure after a number of
// bytes.
//
// It uses blocking POSIX sockets and two threads per connection, so that it shares no code with what is tested.

import Foundation
import Synchronization
import TidelineTestKit

final class SlowProxy: Sendable {
    struct Manners: Sendable {
        /// The seed of the random choices from the ranges below.
        var seed: UInt64 = 0
        /// The delay before each piece, in milliseconds.
        var delay = 0...0
        /// The size of a piece in bytes.
        var piece = 1...16_384
        /// The number of bytes after which a direction is cut off; nil for never.
        var cut: ClosedRange<Int>?
        /// A word that is replaced by another of the same length if it is completely in one piece.
        var replaced: (word: String, by: String)?
    }

    let port: Int
    private let listener: Int32
    private let target: Int
    private let manners: Mutex<Manners>
    private let pairs = Mutex<[SocketPair]>([])
    private let trigger = Mutex<(bytes: Int, action: @Sendable () -> Void)?>(nil)

    /// Forwards to `target`, a port on loopback.
    init(to target: Int, _ manners: Manners = Manners()) throws {
        (listener, port) = try Loopback.listen()
        self.target = target
        self.manners = Mutex(manners)
        Thread.detachNewThread { [self] in acceptAll() }
    }

    var url: URL { URL(string: "http://127.0.0.1:\(port)") ?? URL(filePath: "/") }

    /// Cuts the existing connections; new ones use this behavior.
    func behave(_ manners: Manners) {
        self.manners.withLock { $0 = manners }
        for pair in pairs.withLock({ $0 }) { pair.cut() }
    }

    /// Calls `action` once, after this many more bytes have passed in both directions together.
    func after(bytes: Int, _ action: @escaping @Sendable () -> Void) {
        trigger.withLock { $0 = (bytes, action) }
    }

    private func passed(_ count: Int) {
        let action = trigger.withLock { trigger -> (@Sendable () -> Void)? in
            guard let (bytes, action) = trigger else { return nil }
            trigger = bytes > count ? (bytes - count, action) : nil
            return bytes > count ? nil : action
        }
        action?()
    }

    /// Ends all connections, and accepts no more.
    func stop() {
        shutdown(listener, Int32(SHUT_RDWR))
        for pair in pairs.withLock({ $0 }) { pair.cut() }
    }

    private func acceptAll() {
        var connections: UInt64 = 0
        while true {
            let client = accept(listener, nil, nil)
            guard client >= 0 else {
                close(listener)
                return
            }
            let server = socket(AF_INET, Loopback.stream, 0)
            let pair = SocketPair(client, server)
            guard Loopback.connect(server, port: target) else { continue }
            pairs.withLock { pairs in
                pairs.removeAll { $0.isOver }
                pairs.append(pair)
            }
            let number = connections
            connections += 1
            Thread.detachNewThread { [self] in pump(client, server, pair, 2 * number) }
            Thread.detachNewThread { [self] in pump(server, client, pair, 2 * number + 1) }
        }
    }

    /// Forwards one direction of a connection; `number` is different for each.
    private func pump(_ from: Int32, _ to: Int32, _ pair: SocketPair, _ number: UInt64) {
        defer { pair.leave() }
        var one: Int32 = 1
        setsockopt(to, Int32(IPPROTO_TCP), TCP_NODELAY, &one, 4)
        let first = manners.withLock { $0 }
        var random = SeededGenerator(seed: first.seed &* 1_000_003 &+ number)
        var budget = first.cut.map { Int.random(in: $0, using: &random) } ?? .max
        var buffer = [UInt8](repeating: 0, count: 16_384)
        while true {
            let manners = manners.withLock { $0 }
            let size = min(Int.random(in: manners.piece, using: &random), buffer.count, budget)
            let count = recv(from, &buffer, size, 0)
            guard count > 0 else { break }
            let delay = Int.random(in: manners.delay, using: &random)
            // The slow network that a test asked for.
            if delay > 0 { usleep(UInt32(delay) * 1000) }
            if let (word, other) = manners.replaced {
                let text = Data(buffer[..<count])
                if let range = text.firstRange(of: Data(word.utf8)) {
                    buffer.replaceSubrange(range, with: Array(other.utf8))
                }
            }
            guard send(to, buffer, count, Int32(MSG_NOSIGNAL)) == count else { break }
            passed(count)
            budget -= count
            if budget == 0 { return pair.cut() }
        }
        shutdown(to, Int32(SHUT_WR))
    }
}

/// The two sockets of a connection, which are closed by the last thread that uses them.
private final class SocketPair: Sendable {
    private let one: Int32
    private let two: Int32
    private let users = Mutex(2)

    init(_ one: Int32, _ two: Int32) {
        self.one = one
        self.two = two
    }

    deinit {
        close(one)
        close(two)
    }

    var isOver: Bool { users.withLock { $0 == 0 } }

    func leave() { users.withLock { $0 -= 1 } }

    func cut() {
        shutdown(one, Int32(SHUT_RDWR))
        shutdown(two, Int32(SHUT_RDWR))
    }
}
