// InProcessEvents: the response of an in-process server to `GET /$events`, in the form that a
// client reads from a socket.

import Synchronization
import Tideline
import TidelineServerCore

/// An event listener with its own feed, like the feed of an event loop.
final class InProcessEvents: Sendable {
    private struct State {
        var feed: EventFeed
        var listener: EventListener

        /// Returns the bytes of the pending events.
        mutating func next() -> [UInt8] {
            listener.note(feed.refresh())
            var bytes: [UInt8] = []
            while listener.isPending { bytes += listener.next(feed.timestamps) }
            return bytes
        }
    }

    private let state = Mutex<State?>(nil)
    private let pieces: AsyncThrowingStream<[UInt8], any Error>.Continuation

    /// Starts a listener, which ends when the returned stream is released.
    static func bytes(
        of stream: EventStream,
        on board: EventBoard
    ) -> AsyncThrowingStream<[UInt8], any Error> {
        let (bytes, pieces) = AsyncThrowingStream<[UInt8], any Error>.makeStream()
        let events = InProcessEvents(pieces)
        let feed = board.attach { [weak events] in events?.send() }
        let listener = stream.listener(feed)
        pieces.onTermination = { _ in
            board.detach(feed)
            events.state.withLock { $0 = nil }
        }
        pieces.yield(listener.opening(feed.timestamps))
        events.state.withLock { $0 = State(feed: feed, listener: listener) }
        events.send()
        return bytes
    }

    private init(_ pieces: AsyncThrowingStream<[UInt8], any Error>.Continuation) {
        self.pieces = pieces
    }

    private func send() {
        let bytes = state.withLock { $0?.next() ?? [] }
        if !bytes.isEmpty { pieces.yield(bytes) }
    }
}
