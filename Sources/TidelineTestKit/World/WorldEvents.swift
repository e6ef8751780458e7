// WorldEvents: the events of a world's server, as `GET /$events` of ours tells them: without a socket,
// and in simulated time.

import Synchronization
import Tideline

final class WorldEvents: Sendable {
    private struct State {
        var listeners: [Int: AsyncThrowingStream<[UInt8], any Error>.Continuation] = [:]
        var listenersEver = 0
        var events = 0
    }

    private let state = Mutex(State())

    /// Tells every listener, in the order in which they came.
    func tellChange() {
        let (event, listeners) = state.withLock { state in
            state.events += 1
            let keys = state.listeners.keys.sorted()
            return (Self.event(state.events), keys.compactMap { state.listeners[$0] })
        }
        for listener in listeners { listener.yield(event) }
    }

    /// A new listener, who is told as one that may have missed everything.
    func listen() -> TransportStream {
        let (bytes, continuation) = AsyncThrowingStream<[UInt8], any Error>.makeStream()
        let (key, event) = state.withLock { state in
            state.listenersEver += 1
            state.listeners[state.listenersEver] = continuation
            return (state.listenersEver, Self.event(state.events))
        }
        continuation.onTermination = { [weak self] _ in
            _ = self?.state.withLock { $0.listeners.removeValue(forKey: key) }
        }
        continuation.yield(event)
        return TransportStream(
            status: 200,
            headers: ["Content-Type": "text/event-stream"],
            bytes: bytes
        )
    }

    private static func event(_ number: Int) -> [UInt8] {
        let data = "{\"table\":\"\(WorldItem.tableName)\"}"
        return Array("id: \(number)\nevent: change\ndata: \(data)\n\n".utf8)
    }
}
