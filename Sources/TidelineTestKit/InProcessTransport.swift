// InProcessTransport: a client transport that calls a server's request handler without a socket.

import Foundation
public import Tideline
import TidelineCore
package import TidelineServerCore

/// A client transport that calls a server's request handler directly.
///
/// The method, path, query, headers, bodies, and the events of `GET /$events` are the same as over
/// a socket, except for the comments that keep a connection alive.
public struct InProcessTransport: Transport {
    private let handler: RequestHandler

    /// Creates a transport that calls a request handler.
    package init(_ handler: RequestHandler) {
        self.handler = handler
    }

    /// Calls the handler and returns its response.
    public func send(_ request: TransportRequest) async throws -> TransportResponse {
        let response = await answer(request)
        return TransportResponse(
            status: response.status,
            headers: response.headers,
            body: response.body
        )
    }

    /// Calls the handler and returns its response as a stream.
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
