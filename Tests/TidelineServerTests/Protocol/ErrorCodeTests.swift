// ErrorCodeTests: each error code is documented, and a test causes the rarest one.

import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore
import TidelineTestKit

@Suite struct ErrorCodeTests {
    @Test("protocol.md describes each code", arguments: ErrorCode.allCases)
    func isDescribed(code: ErrorCode) throws {
        let text = try ProjectFile.text("docs/protocol.md")
        #expect(text.contains("`\(code.rawValue)`"))
    }

    @Test("A batch request with a condition is not processed", arguments: ["get", "post"])
    func conditions(method: String) async throws {
        let body = #"""
            {"requests":[{"id":"1","method":"\#(method)","url":"tables/TodoItem","if":"true",
            "headers":{"content-type":"application/json"},"body":{"id":"a"}}]}
            """#
        let request = method == "get" ? body.replacing(#","body":{"id":"a"}"#, with: "") : body
        let server = try await TestServer()
        let answer = await server.send("POST", "/$batch", request)
        #expect(answer.status == 200, "\(answer.text)")
        #expect(answer.text.contains(#""status":424"#), "\(answer.text)")
        #expect(answer.text.contains(#""code":"conditionsNotSupported""#), "\(answer.text)")
        #expect(await server.send("GET", "/tables/TodoItem/a").status == 404)
    }
}
