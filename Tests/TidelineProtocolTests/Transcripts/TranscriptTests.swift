// The recorded calls of the original server, replayed in order.

import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelineServerCore

@Suite struct TranscriptTests {
    @Test("Every documented difference belongs to a recorded call")
    func everyDifferenceBelongsToACall() throws {
        let numbers = Set(try RecordedCall.all.get().map(\.number))
        #expect(numbers.count == 120)
        #expect(numbers.isSuperset(of: Difference.all.keys))
        #expect(Set(Difference.all.keys).isDisjoint(with: Difference.skipped.keys))
    }

    @Test("The recorded calls get the recorded responses, except for the documented differences")
    func answersAsRecorded() async throws {
        var replay = try await Replay()
        for call in try RecordedCall.all.get() where Difference.skipped[call.number] == nil {
            try await replay.run(call)
        }
    }
}

/// The server of the recording, and its versions on this server.
private struct Replay {
    private struct Version: Hashable {
        var id: String
        var recorded: String
    }

    private let dynamic: TestServer
    private let fixed: TestServer
    private var versions: [Version: String] = [:]
    /// The recorded version of each row.
    private var heads: [String: String] = [:]

    init() async throws {
        let ids = Mutex([Difference.milk, Difference.empty1, Difference.empty2])
        let text = ColumnDefinition("text", .string)
        let todo = [text, ColumnDefinition("complete", .boolean)]
        dynamic = try await TestServer(
            [
                TableDefinition("TodoItem", columns: todo),
                TableDefinition("harddelete", columns: [text], softDelete: false),
                TableDefinition("numbers"),
            ],
            dynamic: true,
            makeID: { ids.withLock { $0.isEmpty ? UUID().uuidString : $0.removeFirst() } }
        )
        fixed = try await TestServer([
            TableDefinition("TodoItem", columns: todo),
            TableDefinition("fixedschema", columns: [text]),
            TableDefinition(
                "readonly",
                columns: [text],
                permissions: TablePermissions(insert: .disabled, update: .disabled)
            ),
        ])
        for index in 0..<120 {
            let id = "r" + String(1000 + index).dropFirst()
            let body = #"{"id":"\#(id)","text":"row \#(index)"}"#
            _ = await dynamic.send("POST", "/tables/harddelete", body)
        }
    }

    mutating func run(_ call: RecordedCall) async throws {
        let answer = await send(call)
        let difference = Difference.all[call.number]
        let context: Comment = "call \(call.number), \(call.title): \(answer.text)"
        #expect(answer.status == difference?.status ?? call.status, context)
        #expect(answer.headers["Cache-Control"] == "no-store", context)
        if let difference {
            if let ids = difference.ids { #expect(answer.ids == ids, context) }
        } else {
            compare(call, answer, context)
        }
        if answer.status >= 400, answer.row["id"] == nil { #expect(!answer.error.isEmpty, context) }
        learn(call, answer)
        if let repair = difference?.repair {
            let id = repair.target.split(separator: "/").last.map(String.init) ?? ""
            let repaired = await dynamic.send(repair.method, repair.target, repair.body)
            #expect(repaired.status < 300, context)
            if let head = heads[id] {
                versions[Version(id: id, recorded: head)] = repaired.row["version"] as? String
            }
        }
        await followLink(call, answer)
    }

    private func send(_ call: RecordedCall) async -> ServerResponse {
        let server = ["fixedschema", "readonly", "nosuch"].contains(call.table) ? fixed : dynamic
        var headers = HTTPFields()
        var isClassic = true
        for (name, value) in call.headers {
            if name == "ZUMO-API-VERSION" {
                isClassic = false
                if !value.isEmpty { headers.append(name, value) }
            } else if name != "Origin" || !TestServer.usesBatches {
                // A batch is a write: one from another origin is rejected, whatever it contains.
                headers.append(name, translated(value, call))
            }
        }
        return await server.send(
            call.method,
            call.target,
            call.body.map { translated($0, call) },
            classic: isClassic,
            headers: headers
        )
    }

    /// The text with the recorded versions of the call's row replaced by this server's.
    private func translated(_ text: String, _ call: RecordedCall) -> String {
        var text = text
        for (version, own) in versions where version.id == call.id {
            text = text.replacing("\"\(version.recorded)\"", with: "\"\(own)\"")
        }
        return text
    }

    private mutating func learn(_ call: RecordedCall, _ answer: ServerResponse) {
        guard let body = call.answerBody,
            let recorded = try? JSONSerialization.jsonObject(with: Data(body.utf8))
                as? [String: Any],
            let id = recorded["id"] as? String, let version = recorded["version"] as? String
        else { return }
        heads[id] = version
        guard let own = answer.row["version"] as? String, answer.status < 300 else { return }
        versions[Version(id: id, recorded: version)] = own
    }

    private func compare(_ call: RecordedCall, _ answer: ServerResponse, _ context: Comment) {
        #expect((answer.headers["ETag"] != nil) == (call.answerHeaders["ETag"] != nil), context)
        if let tag = answer.headers["ETag"] {
            #expect(tag == "\"\(answer.row["version"] as? String ?? "")\"", context)
        }
        guard let recorded = call.answerBody else { return }
        if call.status >= 400, answer.row["id"] == nil { return }
        let ignored: Set<String> = call.table == "harddelete" ? ["deleted"] : []
        let expected = ComparableJSON.text(recorded, ignoring: ignored)
        let actual = ComparableJSON.text(answer.text, ignoring: ignored)
        if recorded.hasPrefix("["), !call.target.contains("$orderby") {
            #expect(sorted(expected) == sorted(actual), context)
        } else {
            #expect(expected == actual, context)
        }
    }

    private func sorted(_ list: String) -> [Substring] {
        list.dropFirst().dropLast().split(separator: "},{").map {
            $0.drop { $0 == "{" }
        }.map { $0.hasSuffix("}") ? $0.dropLast() : $0 }.sorted()
    }

    /// A link leads to other rows, and keeps every parameter of the request.
    private func followLink(_ call: RecordedCall, _ answer: ServerResponse) async {
        guard let link = answer.headers["Link"] else { return }
        #expect(link.hasPrefix("http://example.test:8080/tables/") && link.hasSuffix("; rel=next"))
        let target = String(link.dropFirst("http://example.test:8080".count).dropLast(10))
        let next = await dynamic.send("GET", target, classic: true)
        #expect(next.status == 200)
        #expect(!next.ids.isEmpty && Set(next.ids).isDisjoint(with: answer.ids))
        #expect(Set(next.rows[0].keys) == Set(answer.rows[0].keys))
        for part in call.target.split(separator: "?").dropFirst().joined().split(separator: "&")
        where !part.hasPrefix("$skip=") {
            let name = part.split(separator: "=")[0].replacing("$", with: "%24")
            #expect(target.contains(name + "="), "call \(call.number)")
        }
    }
}
