// RedirectBlocker: prevents a URLSession's streamed calls from following redirects.

#if canImport(Darwin)
import Foundation

/// A delegate that returns redirects as responses, so that no token reaches another origin.
///
/// SessionReceiver does the same for calls whose body it collects.
final class RedirectBlocker: NSObject, URLSessionTaskDelegate, Sendable {
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
