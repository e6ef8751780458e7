// InProcessTransport: the server's handler as a client's transport, without a socket.

import Foundation
public import Tideline
import TidelineCore
package import TidelineServerCore

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
                method: request.method,
                path: components?.percentEncodedPath ?? "/",
                query: components?.percentEncodedQuery ?? "",
                headers: headers,
                body: request.body ?? []
            )
        )
        var answered = response.headers
        answered.append("Date", HTTPDate.text(microseconds: handler.now))
        return TransportResponse(
            status: response.status,
            headers: answered,
            body: response.body
        )
    }
}
