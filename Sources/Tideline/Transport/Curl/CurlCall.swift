// CurlCall: a call that the waiting task and the loop share. CurlInbox: the loop's inbox for calls.

#if canImport(CCurl)
import CCurl
import Synchronization
import TidelineCore

/// A call that is finished exactly once.
final class CurlCall: Sendable {
    private enum Phase {
        case waiting
        /// Some bytes may have been sent to the server.
        case begun
        case finished
    }

    private struct State {
        var phase = Phase.waiting
        var continuation: CheckedContinuation<TransportResponse, any Error>?
        /// The result of a call that ended before a task began to wait for it.
        var early: Result<TransportResponse, any Error>?
    }

    let request: TransportRequest
    let deadline: ContinuousClock.Instant
    /// The receiver of the body's parts; nil if the whole body is collected.
    let sink: CurlSink?
    private let state = Mutex(State())

    init(_ request: TransportRequest, sink: CurlSink? = nil) {
        self.request = request
        self.sink = sink
        deadline = .now + request.timeout.clampedForTimers
    }

    var hasBegun: Bool { state.withLock { $0.phase == .begun } }
    var isFinished: Bool { state.withLock { $0.phase == .finished } }

    func attach(_ continuation: CheckedContinuation<TransportResponse, any Error>) {
        let early = state.withLock { state in
            if state.early == nil { state.continuation = continuation }
            return state.early
        }
        if let early { continuation.resume(with: early) }
    }

    /// Records that the request is being sent; returns false if the call was abandoned.
    ///
    /// This method uses the same lock as `expire`, so that "nothing was sent" is reported only if
    /// it is true.
    func begin() -> Bool {
        state.withLock { state in
            guard state.phase != .finished else { return false }
            state.phase = .begun
            return true
        }
    }

    func expire() {
        finish { .failure(TransportError.timedOut(self.request.url, wasSent: $0)) }
    }

    func finish(_ result: Result<TransportResponse, any Error>) {
        finish { _ in result }
    }

    /// Finishes the call unless it is already finished; `result` receives whether anything was
    /// sent.
    func finish(_ result: (_ wasSent: Bool) -> Result<TransportResponse, any Error>) {
        let (continuation, outcome) = state.withLock { state in
            guard state.phase != .finished else {
                return (
                    nil as CheckedContinuation<TransportResponse, any Error>?,
                    nil as Result<TransportResponse, any Error>?
                )
            }
            let outcome = result(state.phase == .begun)
            state.phase = .finished
            let continuation = state.continuation
            state.continuation = nil
            if continuation == nil { state.early = outcome }
            return (continuation, outcome)
        }
        if let continuation, let outcome { continuation.resume(with: outcome) }
    }
}

/// The loop's inbox for calls, and the only way to wake it.
final class CurlInbox: Sendable {
    struct Batch {
        var submitted: [CurlCall] = []
        var abandoned: [CurlCall] = []
    }

    private struct State {
        var batch = Batch()
        var isStopped = false
        var isWoken = false
    }

    private let multi: CurlMulti
    private let state = Mutex(State())

    init(_ multi: CurlMulti) {
        self.multi = multi
    }

    func submit(_ call: CurlCall) {
        change { $0.batch.submitted.append(call) }
    }

    /// Asks the loop to drop a call that has already finished.
    func abandon(_ call: CurlCall) {
        change { $0.batch.abandoned.append(call) }
    }

    func stop() {
        change { $0.isStopped = true }
    }

    /// Returns the calls that arrived since the last call of this method; nil after `stop`.
    func take() -> Batch? {
        state.withLock { state in
            guard !state.isStopped else { return nil }
            let batch = state.batch
            state.batch = Batch()
            state.isWoken = false
            return batch
        }
    }

    /// Changes the state and wakes the loop, both under the lock, because the handle is closed
    /// after `take` returns nil.
    private func change(_ body: (inout State) -> Void) {
        state.withLock { state in
            guard !state.isStopped else { return }
            body(&state)
            if !state.isWoken { multi.wake() }
            state.isWoken = true
        }
    }
}

/// A wrapper of libcurl's multi handle.
///
/// `@unchecked` because libcurl allows only one function on other threads, `curl_multi_wakeup`.
/// Only `CurlInbox` calls it, under its lock and never after `stop`. All other calls are made on
/// the thread of `CurlLoop`, which finally closes the handle.
struct CurlMulti: @unchecked Sendable {
    /// Whether libcurl is initialized, which must happen once per process before the first handle
    /// is created.
    private static let isReady = curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK

    let handle: UnsafeMutableRawPointer?

    init() {
        handle = Self.isReady ? curl_multi_init() : nil
    }

    func wake() {
        if let handle { curl_multi_wakeup(handle) }
    }
}
#endif
