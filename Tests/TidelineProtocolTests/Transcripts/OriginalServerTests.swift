// The recorded calls of the original Node server, replayed against the test kit's imitation of it.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit

@Suite struct OriginalServerTests {
    private static let authentication = "the imitation knows no users"

    /// Calls that are not replayed, each with its reason.
    private static let skipped: [Int: String] = [
        108: authentication, 109: authentication, 110: authentication, 111: authentication,
        112: authentication, 113: authentication, 114: authentication,
        118: "push notifications belong to the hosting platform",
    ]

    private static func server() -> OriginalServer {
        let ids = Mutex([Difference.milk, Difference.empty1, Difference.empty2])
        let todo: [String: OriginalServer.ColumnType] = ["text": .string, "complete": .boolean]
        var hard = OriginalServer.Table("harddelete", columns: ["text": .string])
        hard.softDelete = false
        var numbers = OriginalServer.Table("numbers")
        numbers.autoIncrement = true
        var fixed = OriginalServer.Table("fixedschema", columns: ["text": .string])
        fixed.dynamicSchema = false
        var readonly = OriginalServer.Table("readonly", columns: ["text": .string])
        readonly.disabled = ["POST", "PATCH"]
        return OriginalServer(
            .node,
            tables: [.init("TodoItem", columns: todo), hard, numbers, fixed, readonly],
            endpoint: URL(string: "http://127.0.0.1:3000") ?? URL(filePath: "/"),
            hasSQLiteFunctions: true,
            makeID: { ids.withLock { $0.isEmpty ? "other" : $0.removeFirst() } }
        )
    }

    @Test("The imitation of the original server responds as recorded")
    func answersAsRecorded() async throws {
        let server = Self.server()
        for index in 0..<120 {
            let id = "r" + String(1000 + index).dropFirst()
            let body = #"{"id":"\#(id)","text":"row \#(index)"}"#
            _ = try await send(server, "POST", "/tables/harddelete", [], body)
        }
        for call in try RecordedCall.all.get() where Self.skipped[call.number] == nil {
            let answer = try await send(
                server,
                call.method,
                call.target,
                call.headers,
                call.body
            )
            compare(call, answer)
        }
    }

    private func send(
        _ server: OriginalServer,
        _ method: String,
        _ target: String,
        _ headers: [(name: String, value: String)],
        _ body: String?
    ) async throws -> TransportResponse {
        var fields: HTTPFields = ["ZUMO-API-VERSION": "2.0.0"]
        if body?.isEmpty == false { fields["Content-Type"] = "application/json" }
        for (name, value) in headers { fields[name] = value.isEmpty ? nil : value }
        // Recorded targets contain quotes and dollar signs as they were sent.
        let url = try #require(URL(string: server.endpoint.absoluteString + target))
        return try await server.send(
            TransportRequest(
                method: method,
                url: url,
                headers: fields,
                body: body.map { Array($0.utf8) }
            )
        )
    }

    private func compare(_ call: RecordedCall, _ answer: TransportResponse) {
        let text = String(decoding: answer.body, as: UTF8.self)
        let context: Comment = "call \(call.number), \(call.title): \(text.prefix(300))"
        #expect(answer.status == call.status, context)
        #expect(answer.headers["Link"] == call.answerHeaders["Link"], context)
        let tag = answer.headers["ETag"].flatMap { $0.hasPrefix("W/") ? nil : $0 }
        #expect(tag == call.answerHeaders["ETag"], context)
        #expect(answer.headers["x-zumo-server-version"] == "node-4.0.3", context)
        guard let recorded = call.answerBody else { return }
        #expect(ComparableJSON.text(text) == ComparableJSON.text(recorded), context)
    }
}
