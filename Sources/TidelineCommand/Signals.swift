// Signals: the signals that the system and an operator send to a running server.

import Dispatch
import Foundation
import Synchronization

/// The signals of the process: SIGTERM and SIGINT as a stream, and SIGHUP.
final class Signals {
    let stream: AsyncStream<Void>
    private let sources: [any DispatchSourceSignal]
    private let hangUp: any DispatchSourceSignal

    init() {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
        self.stream = stream
        sources = [SIGTERM, SIGINT].map { number in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { continuation.yield() }
            source.activate()
            return source
        }
        signal(SIGHUP, SIG_IGN)
        hangUp = DispatchSource.makeSignalSource(signal: SIGHUP, queue: .global())
        hangUp.activate()
    }

    func onHangUp(_ body: @escaping @Sendable () -> Void) {
        hangUp.setEventHandler(handler: body)
    }

    /// Raises a flag and calls `body` at the first signal, including SIGHUP; the second signal ends the
    /// process.
    func raise(_ flag: StopFlag, _ body: @escaping @Sendable () -> Void) {
        for source in sources + [hangUp] {
            source.setEventHandler {
                if flag.raise() { _exit(1) }
                body()
            }
        }
    }

    func exitOnNext() {
        for source in sources { source.setEventHandler { _exit(1) } }
    }
}

/// A flag that ends work early.
final class StopFlag: Sendable {
    private let state = Mutex(false)

    var isRaised: Bool { state.withLock { $0 } }

    /// Raises the flag; returns whether it was raised before.
    func raise() -> Bool {
        state.withLock { state in
            defer { state = true }
            return state
        }
    }
}
