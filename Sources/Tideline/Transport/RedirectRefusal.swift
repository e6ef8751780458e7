// RedirectRefusal: streamed calls of a URLSession follow no redirect.

#if canImport(Darwin)
import Foundation

/// Hands redirects to the caller as responses: a token must not follow to another origin.
///
/// SessionReceiver does the same for calls whose bodies it collects.
final class RedirectRefusal: NSObject, URLSessionTaskDelegate, Sendable {
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
