// InProcessTransport: the server's handler as a client's transport, without a socket.

import Foundation
public import Tideline
package import TidelineServerCore
import TidelineCore

/// Carries requests straight into a server's handler.
///
/// Method, path, query, headers and bodies are what a socket would carry.
public struct InProcessTransport: Transport {
    private let handler: RequestHandler

    /// A transport to this handler.
    package init(_ handler: RequestHandler) {
        self.handler = handler
    }

    /// Hands the request in and gives the answer back.
    public func send(_ request: TransportRequest) async throws -> TransportResponse {
        let components = URLComponents(url: request.url, resolvingAgainstBaseURL: false)
        var headers = request.headers
        headers["Host"] = request.url.host() ?? "localhost"
        let response = await handler.handle(
            ServerRequest(
                method: request.method, path: components?.percentEncodedPath ?? "/",
                query: components?.percentEncodedQuery ?? "", headers: headers,
                body: request.body ?? []))
        return TransportResponse(
            status: response.status, headers: response.headers, body: response.body)
    }
}
