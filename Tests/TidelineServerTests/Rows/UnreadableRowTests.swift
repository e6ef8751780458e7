// A caller with write but without read permission learns nothing about stored values: not from sizes, limits or
// replayed responses.

import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore
import TidelineTestKit

@Suite struct UnreadableRowTests {
    static let table = TableDefinition(
        "T",
        columns: [
            ColumnDefinition("text", .string), ColumnDefinition("note", .string),
            ColumnDefinition("rank", .integer),
        ],
        permissions: TablePermissions(
            read: .disabled,
            insert: .anonymous,
            update: .anonymous,
            delete: .anonymous
        )
    )

    static let stores = PostgresCluster.reasonToSkip == nil ? [false, true] : [false]

    private func testServer(
        onPostgres: Bool,
        _ table: TableDefinition = table,
        hooks: [String: TableHooks] = [:],
        change: (inout ServerLimits) -> Void = { _ in }
    ) async throws -> TestServer {
        var limits = ServerLimits()
        change(&limits)
        return try await TestServer([table], onPostgres: onPostgres, limits: limits, hooks: hooks)
    }

    private static func text(_ count: Int) -> String { String(repeating: "x", count: count) }

    /// The responses about rows whose stored texts have these lengths.
    private func answers(
        _ testServer: TestServer,
        storing lengths: [Int],
        _ send: (String) async -> [ServerResponse]
    ) async -> [[String]] {
        var all: [[String]] = []
        for (index, length) in lengths.enumerated() {
            let id = "row\(index)"
            let body = #"{"id":"\#(id)","text":"\#(Self.text(length))"}"#
            #expect(await testServer.send("POST", "/tables/T", body).status == 201)
            all.append(
                await send(id).map { answer in
                    "\(answer.status) \(answer.body.count) \(answer.headers["Retry-After"] ?? "")"
                }
            )
        }
        return all
    }

    @Test(
        "A PATCH that makes the row too large discloses nothing about the stored size",
        arguments: stores
    )
    func rowLimit(onPostgres: Bool) async throws {
        let testServer = try await testServer(onPostgres: onPostgres) { $0.rowBytes = 100_000 }
        let found = await answers(testServer, storing: [10, 50_000, 99_000]) { id in
            var answers: [ServerResponse] = []
            for length in [1000, 40_000, 70_000, 85_000, 99_000] {
                let body = #"{"note":"\#(Self.text(length))"}"#
                answers.append(await testServer.send("PATCH", "/tables/T/\(id)", body))
                let patch = #"[{"op":"replace","path":"/note","value":"\#(Self.text(length))"}]"#
                let headers: HTTPFields = ["Content-Type": "application/json-patch+json"]
                answers.append(
                    await testServer.send("PATCH", "/tables/T/\(id)", patch, headers: headers)
                )
            }
            answers.append(
                await testServer.send("PATCH", "/tables/T", #"{"id":"\#(id)"}"#, classic: true)
            )
            answers.append(await testServer.send("DELETE", "/tables/T/\(id)"))
            answers.append(await testServer.send("POST", "/tables/T/\(id)", classic: true))
            return answers
        }
        #expect(found[0] == found[1] && found[0] == found[2], "\(found)")
        #expect(found[0].contains { $0.hasPrefix("413") })
        #expect(found[0].first?.hasPrefix("200") == true && found[0].last?.hasPrefix("201") == true)
    }

    @Test(
        "A row that callers without read permission enlarge stays within the limit",
        arguments: stores
    )
    func growth(onPostgres: Bool) async throws {
        var open = Self.table
        open.permissions.read = .authenticated
        var limits = ServerLimits()
        limits.rowBytes = 100_000
        let testServer = try await TestServer(
            [open],
            onPostgres: onPostgres,
            limits: limits,
            authenticator: try Tokens.authenticator()
        )
        let anna = try Tokens.headers("anna")
        let body = #"{"id":"a","text":"\#(Self.text(99_000))"}"#
        #expect(await testServer.send("POST", "/tables/T", body).status == 201)
        for column in ["text", "note"] {
            let patch = #"{"\#(column)":"\#(Self.text(80_000))"}"#
            #expect(await testServer.send("PATCH", "/tables/T/a", patch).status == 200)
            let large = #"{"\#(column)":"\#(Self.text(90_000))"}"#
            #expect(await testServer.send("PATCH", "/tables/T/a", large).status == 413)
        }
        // A caller with read permission may shrink it in steps, but not enlarge it.
        let longer = #"{"text":"\#(Self.text(95_000))"}"#
        #expect(await testServer.send("PATCH", "/tables/T/a", longer, headers: anna).status == 413)
        let less = #"{"note":"\#(Self.text(79_000))"}"#
        #expect(await testServer.send("PATCH", "/tables/T/a", less, headers: anna).status == 200)
    }

    @Test(
        "A batch counts the bytes of its short answers, not the size of the rows",
        arguments: stores
    )
    func batchAnswers(onPostgres: Bool) async throws {
        let testServer = try await testServer(onPostgres: onPostgres) {
            $0.batchAnswerBytes = 100_000
        }
        let found = await answers(testServer, storing: [10, 60_000]) { id in
            let part = #"{"id":"ID","method":"patch","url":"tables/T/\#(id)","body":{"rank":1}}"#
            let parts = (0..<4).map { part.replacing("ID", with: "\($0)") }
            let body = #"{"requests":[\#(parts.joined(separator: ","))]}"#
            let answer = await testServer.send("POST", "/$batch", body)
            let answers = answer.row["responses"] as? [[String: Any]] ?? []
            return answers.map { ServerResponse(status: $0["status"] as? Int ?? 0) }
        }
        #expect(found[0] == found[1] && found[0].count == 4, "\(found)")
    }

    @Test(
        "A replayed answer is the same as the first, for a stored row of any size",
        arguments: stores
    )
    func replays(onPostgres: Bool) async throws {
        let testServer = try await testServer(onPostgres: onPostgres)
        for (index, length) in [10, 5000].enumerated() {
            let (id, clock) = ("row\(index)", Timestamp(microseconds: 1_800_000_000_000_000))
            let keys: HTTPFields = [
                "Repeatability-Request-ID": "key\(index)",
                "Repeatability-First-Sent": HTTPDate.text(microseconds: clock.microseconds),
            ]
            let body = #"{"id":"\#(id)","text":"\#(Self.text(length))"}"#
            _ = await testServer.send("POST", "/tables/T", body)
            let first = await testServer.send("PATCH", "/tables/T/\(id)", "{}", headers: keys)
            #expect(first.status == 200)
            #expect(await testServer.send("PATCH", "/tables/T/\(id)", "{}").status == 200)
            let repeated = await testServer.send("PATCH", "/tables/T/\(id)", "{}", headers: keys)
            #expect(repeated.body == first.body, "\(length): \(repeated.text)")
            #expect(repeated.headers["ETag"] == first.headers["ETag"])
        }
    }

    @Test(
        "The replayed answer to an insert contains nothing that was written later",
        arguments: stores
    )
    func replayedInsert(onPostgres: Bool) async throws {
        let testServer = try await testServer(onPostgres: onPostgres)
        let keys: HTTPFields = [
            "Repeatability-Request-ID": "insert",
            "Repeatability-First-Sent": HTTPDate.text(microseconds: 1_800_000_000_000_000),
        ]
        let body = #"{"id":"a","text":"\#(Self.text(5000))"}"#
        #expect(await testServer.send("POST", "/tables/T", body, headers: keys).status == 201)
        #expect(await testServer.send("PATCH", "/tables/T/a", #"{"note":"secret"}"#).status == 200)
        let repeated = await testServer.send("POST", "/tables/T", body, headers: keys)
        #expect(repeated.status == 201 && !repeated.text.contains("secret"), "\(repeated.text)")
    }

    @Test("A caller is charged for the bytes of the request", arguments: stores)
    func charges(onPostgres: Bool) async throws {
        let testServer = try await testServer(onPostgres: onPostgres) { $0.callerBytes = 200_000 }
        let found = await answers(testServer, storing: [10, 60_000]) { id in
            var answers: [ServerResponse] = []
            for _ in 0..<8 {
                answers.append(await testServer.send("PATCH", "/tables/T/\(id)", "{}"))
            }
            return answers
        }
        #expect(found[0] == found[1], "\(found)")
    }

    @Test("Hooks see the whole row, even if the caller may not read it", arguments: stores)
    func hooks(onPostgres: Bool) async throws {
        let seen = SeenRows()
        var hooks = TableHooks()
        hooks.afterWrite = { event in await seen.add(event.row) }
        hooks.conflict = { conflict in
            await seen.add(conflict.server)
            return .policy
        }
        let testServer = try await testServer(onPostgres: onPostgres, hooks: ["T": hooks])
        _ = await testServer.send("POST", "/tables/T", #"{"id":"a","text":"whole"}"#)
        let answer = await testServer.send("PATCH", "/tables/T/a", #"{"rank":1}"#)
        #expect(answer.status == 200 && !answer.text.contains("whole"))
        let stale: HTTPFields = ["If-Match": "\"AAAAAAAAAAE=\""]
        let rejected = await testServer.send("PATCH", "/tables/T/a", #"{"rank":2}"#, headers: stale)
        #expect(rejected.status == 412 && rejected.body.isEmpty)
        #expect(await seen.rows.map { $0?["text"] } == ["whole", "whole", "whole"])
    }

    private actor SeenRows {
        private(set) var rows: [Row?] = []

        func add(_ row: Row?) { rows.append(row) }
    }
}
