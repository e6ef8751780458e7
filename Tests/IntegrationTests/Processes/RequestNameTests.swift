// RequestNameTests: every response and its log line have the id of the request.

import Foundation
import Testing
import Tideline
import TidelineCore

extension ProcessTests {
    struct RequestNameTests {
        @Test("Requests and rejections are logged with their request IDs")
        func rejectionsAreLoggedWithTheirIDs() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                let port = server.port
                let rejection = try await blocking {
                    let connection = try RawConnection(port: port)
                    try connection.send(
                        "GET /tables/Note HTTP/1.1\r\nX-Request-ID: mine\r\n\r\n"
                    )
                    return String(decoding: try connection.rest(), as: UTF8.self)
                }
                #expect(rejection.hasPrefix("HTTP/1.1 400 "))
                #expect(rejection.contains("\r\nX-Request-ID: mine\r\n"))
                let answer = try await server.wire.send("GET", "/tables/Note")
                let name = try #require(answer.headers["X-Request-ID"])
                _ = try await eventually("two lines") {
                    server.requests.count == 2 ? () : nil
                }
                #expect(server.requests.map(\.status) == [400, 200])
                let line = #"request="mine" from="127.0.0.1" method="GET""#
                #expect(server.process.error.contains(line))
                #expect(server.process.error.contains(#"request="\#(name)""#))
                let metrics = try await server.wire.send("GET", "/metrics")
                let text = String(decoding: metrics.body, as: UTF8.self)
                #expect(text.contains(#"{route="refused",status="400"} 1"#))
            }
        }
    }
}
