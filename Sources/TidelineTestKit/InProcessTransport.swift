// InProcessTransport: the server's handler as a client's transport, without a socket.

import Foundation
public import Tideline
import TidelineCore
package import TidelineServerCore

/// Carries requests straight into a server's handler.
///
/// Method, path, query, headers and bodies are what a socket would carry, and so are the events of
/// `GET /$events`, but for the comments that keep a connection alive.
public struct InProcessTransport: Transport {
    private let handler: RequestHandler

    /// A transport to this handler.
    package init(_ handler: RequestHandler) {
        self.handler = handler
    }

    /// Hands the request in and gives the answer back.
    public func send(_ request: TransportRequest) async throws -> TransportResponse {
        let response = await answer(request)
        return TransportResponse(
            status: response.status,
            headers: response.headers,
            body: response.body
        )
    }

    /// Hands the request in and gives the answer back while it comes.
    public func stream(_ request: TransportRequest) async throws -> TransportStream {
        let response = await answer(request)
        var bytes = AsyncThrowingStream<[UInt8], any Error> { pieces in
            pieces.yield(response.body)
            pieces.finish()
        }
        if let stream = response.stream {
            bytes = InProcessEvents.bytes(of: stream, on: handler.service.settings.traffic.events)
        }
        return TransportStream(status: response.status, headers: response.headers, bytes: bytes)
    }

    private func answer(_ request: TransportRequest) async -> ServerResponse {
        let components = URLComponents(url: request.url, resolvingAgainstBaseURL: false)
        var headers = request.headers
        headers["Host"] = request.url.host() ?? "localhost"
        var response = await handler.handle(
            ServerRequest(
                method: request.method,
                path: components?.percentEncodedPath ?? "/",
                query: components?.percentEncodedQuery ?? "",
                headers: headers,
                body: request.body ?? []
            )
        )
        response.headers.append("Date", HTTPDate.text(microseconds: handler.now))
        return response
    }
}
