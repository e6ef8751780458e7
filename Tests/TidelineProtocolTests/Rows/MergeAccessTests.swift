// The conflict policy `merge` combined with permissions, owners and hooks.

import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore

@Suite struct MergeAccessTests {
    /// Whether a write merges would disclose values to a caller without read permission.
    @Test("A write is not merged if the caller lacks read permission")
    func writesWithoutReadPermissionAreNotMerged() async throws {
        let testServer = try await MergePolicyTests.server { $0.permissions.read = .disabled }
        let first = await testServer.send("PATCH", "/tables/T/a", "{}")
        let tag = first.headers["ETag"] ?? ""
        _ = await testServer.send("PATCH", "/tables/T/a", #"{"text":"secret"}"#)
        for guess in ["secret", "public"] {
            let answer = await testServer.send(
                "PATCH",
                "/tables/T/a",
                #"{"text":"\#(guess)"}"#,
                headers: ["If-Match": tag]
            )
            #expect(answer.status == 412 && answer.body.isEmpty)
        }
    }

    @Test("A stale write is merged only into a row of its caller")
    func ownersMergeOnlyTheirRows() async throws {
        var table = MergePolicyTests.table
        table.owner = "userId"
        let testServer = try await TestServer([table], authenticator: try Tokens.authenticator())
        let anna = try Tokens.headers("anna")
        let created = await testServer.send(
            "POST",
            "/tables/T",
            MergePolicyTests.row,
            headers: anna
        )
        let tag = created.headers["ETag"] ?? ""
        _ = await testServer.send("PATCH", "/tables/T/a", #"{"text":"y"}"#, headers: anna)
        for (user, status) in [("bert", 404), ("anna", 200)] {
            var headers = try Tokens.headers(user)
            headers.append("If-Match", tag)
            let body = MergePolicyTests.row.replacing(
                #""rank":1"#,
                with: #""userId":"bert","rank":2"#
            )
            let answer = await testServer.send("PUT", "/tables/T/a", body, headers: headers)
            #expect(answer.status == status, "\(answer.text)")
            guard status == 200 else { continue }
            #expect(answer.row["userId"] as? String == "anna")
            #expect(answer.row["text"] as? String == "y" && answer.row["rank"] as? Int == 2)
        }
    }

    @Test("The conflict handler decides before the merge policy applies")
    func conflictHandlersRunFirst() async throws {
        for (decision, text) in [(ConflictResolution.policy, "y"), (.client, "x"), (.server, "y")] {
            var hooks = TableHooks()
            hooks.conflict = { _ in decision }
            let testServer = try await TestServer([MergePolicyTests.table], hooks: ["T": hooks])
            _ = await testServer.send("POST", "/tables/T", MergePolicyTests.row)
            let answer = await MergePolicyTests.stale(
                testServer,
                after: #"{"text":"y"}"#,
                "PATCH",
                #"{"text":"x","rank":2}"#
            )
            #expect(answer.status == 200 && answer.row["text"] as? String == text)
        }
    }

    @Test("The hook after a merge receives the merged row")
    func hooksSeeTheMergedRow() async throws {
        let events = Events()
        var hooks = TableHooks()
        hooks.beforeWrite = { change in
            if change.values["rank"] == .integer(9) { throw Rejection(422, "no") }
        }
        hooks.afterWrite = { event in await events.add(event.row) }
        let testServer = try await TestServer([MergePolicyTests.table], hooks: ["T": hooks])
        _ = await testServer.send("POST", "/tables/T", MergePolicyTests.row)
        let rejected = await MergePolicyTests.stale(
            testServer,
            after: #"{"text":"y"}"#,
            "PATCH",
            #"{"rank":9}"#
        )
        #expect(rejected.status == 422)
        let merged = await MergePolicyTests.stale(
            testServer,
            after: #"{"text":"w"}"#,
            "PATCH",
            #"{"rank":2}"#
        )
        #expect(merged.status == 200)
        let last = await events.rows.last
        #expect(last??["text"] == "w" && last??["rank"] == 2)
    }

    private actor Events {
        private(set) var rows: [Row?] = []

        func add(_ row: Row?) { rows.append(row) }
    }
}
