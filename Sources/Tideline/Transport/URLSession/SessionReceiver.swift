// SessionReceiver: receives the responses of a URLSession.
//
// A response may declare a small length, or none, and never end. Bytes are therefore counted as
// they arrive, and the call is cancelled at the first byte over the limit.

#if canImport(Darwin)
import Foundation
import Synchronization

/// A delegate that receives the response to one URLSession call, up to the size limit.
final class SessionReceiver: NSObject, URLSessionDataDelegate, Sendable {
    /// The response received so far.
    struct Received: Sendable {
        var response: URLResponse?
        var body: [UInt8] = []
        var isTooLarge = false
    }

    private struct State {
        var received = Received()
        var continuation: CheckedContinuation<Received, any Error>?
    }

    private let bytesMax: Int
    private let state = Mutex(State())

    init(bytesMax: Int) {
        self.bytesMax = bytesMax
    }

    /// Sets the waiting caller.
    ///
    /// Called once, before the task is resumed.
    func attach(_ continuation: CheckedContinuation<Received, any Error>) {
        state.withLock { $0.continuation = continuation }
    }

    func urlSession(
        _ session: URLSession,
        dataTask: URLSessionDataTask,
        didReceive response: URLResponse,
        completionHandler: @escaping @Sendable (URLSession.ResponseDisposition) -> Void
    ) {
        let isTooLarge = state.withLock { state in
            state.received.response = response
            state.received.isTooLarge = response.expectedContentLength > Int64(bytesMax)
            return state.received.isTooLarge
        }
        completionHandler(isTooLarge ? .cancel : .allow)
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        let isTooLarge = state.withLock { state in
            guard !state.received.isTooLarge else { return false }
            state.received.isTooLarge = data.count > bytesMax - state.received.body.count
            if !state.received.isTooLarge { state.received.body.append(contentsOf: data) }
            return state.received.isTooLarge
        }
        if isTooLarge { dataTask.cancel() }
    }

    func urlSession(
        _ session: URLSession,
        task: URLSessionTask,
        didCompleteWithError error: (any Error)?
    ) {
        let (received, continuation) = state.withLock { state in
            defer { state.continuation = nil }
            return (state.received, state.continuation)
        }
        if let error, !received.isTooLarge {
            continuation?.resume(throwing: error)
        } else {
            continuation?.resume(returning: received)
        }
    }

    /// Returns redirects as responses, because a token must not reach another origin.
    func urlSession(
        _ session: URLSession,
        task: URLSessionTask,
        willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest,
        completionHandler: @escaping @Sendable (URLRequest?) -> Void
    ) {
        completionHandler(nil)
    }
}
#endif
