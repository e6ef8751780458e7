// ParentTests: a write is rejected if it refers to a row that is not there, on both databases.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore
import TidelineTestKit

@Suite struct ParentTests {
    private static let missing = "409 parentNotFound customerID Customer"

    @Test("Every write rejects a row whose parent does not exist", arguments: FieldService.backends)
    func missingParents(_ onPostgres: Bool) async throws {
        try await FieldService.with(onPostgres) { service in
            try await service.put("Customer", "c")
            try await service.put("Customer", "gone")
            #expect(try await service.delete("Customer", "gone").status == 204)
            for parent in ["nobody", "gone"] {
                let rejected = try await service.put("Job", "j", ["customerID": parent])
                #expect(rejected.referenceError == Self.missing)
                #expect(rejected.headers["Content-Type"] == "application/problem+json")
                #expect(!rejected.text.contains(parent))
            }
            #expect(try await service.ids("Job").isEmpty)
            #expect(try await service.put("Job", "j", ["customerID": "c"]).status == 201)
            for parent in ["nobody", "gone"] {
                let patched = try await service.patch("Job", "j", ["customerID": parent])
                #expect(patched.referenceError == Self.missing)
                let body = FieldService.json("j", ["customerID": parent])
                let replaced = try await service.server.send("PUT", "/tables/Job/j", body)
                #expect(replaced.referenceError == Self.missing)
            }
            let row = try await service.server.send("GET", "/tables/Job/j").row
            #expect(row["customerID"] as? String == "c")
            // Null means that there is none, and a reference that does not change is not checked.
            #expect(try await service.put("Job", "free", ["customerID": nil]).status == 201)
            #expect(try await service.put("Job", "without").status == 201)
            #expect(try await service.patch("Job", "free", ["customerID": nil]).status == 200)
            #expect(try await service.patch("Job", "free", ["customerID": "c"]).status == 200)
            #expect(try await service.patch("Job", "free", ["title": "t"]).status == 200)
        }
    }

    @Test("A row can be undeleted only if its parent exists", arguments: FieldService.backends)
    func undelete(_ onPostgres: Bool) async throws {
        try await FieldService.with(onPostgres) { service in
            try await service.put("Customer", "c")
            try await service.put("Job", "j", ["customerID": "c"])
            try await service.put("Visit", "v", ["jobID": "j"])
            #expect(try await service.delete("Customer", "c").status == 204)
            let restore = #"{"deleted":false}"#
            let undeleted = try await service.server.send(
                "PATCH",
                "/tables/Job/j",
                restore
            )
            #expect(undeleted.referenceError == Self.missing)
            // The delete of a parent is undone without its children.
            let parent = try await service.server.send("PATCH", "/tables/Customer/c", restore)
            #expect(parent.status == 200)
            #expect(try await service.ids("Job").isEmpty)
            let job = try await service.server.send("PATCH", "/tables/Job/j", restore)
            #expect(job.status == 200)
            #expect(try await service.ids("Job") == ["j"])
            #expect(try await service.ids("Visit").isEmpty)
        }
    }

    @Test(
        "An insert with a known ID is a conflict, even if its parent does not exist",
        arguments: FieldService.backends
    )
    func existingRows(_ onPostgres: Bool) async throws {
        try await FieldService.with(onPostgres) { service in
            try await service.put("Customer", "c")
            try await service.put("Job", "j", ["customerID": "c"])
            let again = try await service.put("Job", "j", ["customerID": "nobody"])
            #expect(again.status == 409 && again.code == nil)
            #expect(again.row["customerID"] as? String == "c")
            let absent = try await service.patch("Job", "other", ["customerID": "nobody"])
            #expect(absent.status == 404)
        }
    }

    @Test("A parent may be inserted in the same batch", arguments: FieldService.backends)
    func batches(_ onPostgres: Bool) async throws {
        try await FieldService.with(onPostgres) { service in
            func statuses(
                _ group: String?,
                _ rows: [(String, String, [String: String?])]
            ) async throws
                -> [Int?]
            {
                let parts = rows.enumerated().map { number, row in
                    let group = group.map { ",\"atomicityGroup\":\"\($0)\"" } ?? ""
                    return """
                        {"id":"\(number)","method":"POST","url":"/tables/\(row.0)"\(group),\
                        "headers":{"content-type":"application/json"},\
                        "body":\(FieldService.json(row.1, row.2))}
                        """
                }
                let body = "{\"requests\":[\(parts.joined(separator: ","))]}"
                let prefer: HTTPFields = ["Prefer": "continue-on-error"]
                let answer = try await service.server.send("POST", "/$batch", body, prefer)
                let answers = answer.row["responses"] as? [[String: Any]] ?? []
                return answers.map { $0["status"] as? Int }
            }
            for group in [nil, "g"] {
                let (c, j, v) = ("c\(group ?? "")", "j\(group ?? "")", "v\(group ?? "")")
                let good = try await statuses(
                    group,
                    [
                        ("Customer", c, [:]), ("Job", j, ["customerID": c]),
                        ("Visit", v, ["jobID": j, "nextID": v]),
                    ]
                )
                #expect(good == [201, 201, 201])
            }
            // Of a group, nothing is stored.
            let bad = try await statuses(
                "g",
                [("Job", "x", ["customerID": "y"]), ("Customer", "y", [:])]
            )
            #expect(bad.first == 409)
            #expect(try await service.ids("Customer") == ["c", "cg"])
            // Without a group, each request is on its own.
            let mixed = try await statuses(
                nil,
                [("Job", "x", ["customerID": "y"]), ("Customer", "y", [:])]
            )
            #expect(mixed == [409, 201])
        }
    }

    @Test(
        "A parent that the caller may not see counts as missing",
        arguments: FieldService.backends
    )
    func visibility(_ onPostgres: Bool) async throws {
        let tables = FieldService.tables { tables in
            tables[0].owner = "userId"
            tables[0].completeOwner()
        }
        var hooks = TableHooks()
        hooks.rowFilter = { user in
            let secret = "secret of \(user?.id ?? "")"
            return "title eq null or title ne \(secret)"
        }
        try await FieldService.with(onPostgres, tables, hooks: ["Job": hooks]) { service in
            try await service.put("Customer", "a", by: "anna")
            #expect(
                try await service.put("Job", "j", ["customerID": "a"], by: "bela").referenceError
                    == Self.missing
            )
            let inserted = try await service.put("Job", "j", ["customerID": "a", "title": "t"])
            #expect(inserted.status == 201)
            #expect(try await service.put("Visit", "v", ["jobID": "j"], by: "bela").status == 201)
            let hidden = try await service.patch("Job", "j", ["title": "secret of bela"])
            #expect(hidden.status == 200)
            #expect(
                try await service.put("Visit", "w", ["jobID": "j"], by: "bela").referenceError
                    == "409 parentNotFound jobID Job"
            )
            // What is there already may be changed.
            let changed = try await service.patch("Visit", "v", ["nextID": "v"], by: "bela")
            #expect(changed.status == 200)
        }
    }

    @Test("A reference of type guid refers to a row with that ID", arguments: FieldService.backends)
    func guids(_ onPostgres: Bool) async throws {
        let tables = FieldService.tables { tables in
            tables[1].schema.columns[1] = ColumnDefinition("customerID", .guid)
        }
        let id = "01234567-89ab-cdef-0123-456789abcdef"
        try await FieldService.with(onPostgres, tables) { service in
            #expect(
                try await service.put("Job", "j", ["customerID": id]).referenceError == Self.missing
            )
            try await service.put("Customer", id)
            try await service.put("Customer", "not a UUID")
            #expect(try await service.put("Job", "j", ["customerID": id]).status == 201)
            #expect(try await service.delete("Customer", "not%20a%20UUID").status == 204)
            #expect(try await service.delete("Customer", id).status == 204)
            #expect(try await service.ids("Job").isEmpty)
        }
    }

    @Test("A reference with the rule none is not checked", arguments: FieldService.backends)
    func unchecked(_ onPostgres: Bool) async throws {
        let tables = FieldService.tables { $0[1].references[0].onDelete = .none }
        try await FieldService.with(onPostgres, tables) { service in
            #expect(try await service.put("Job", "j", ["customerID": "nobody"]).status == 201)
            try await service.put("Customer", "c")
            try await service.put("Job", "k", ["customerID": "c"])
            #expect(try await service.delete("Customer", "c").status == 204)
            #expect(try await service.ids("Job") == ["j", "k"])
        }
    }

    @Test("The references in a JSON Patch are checked", arguments: FieldService.backends)
    func patches(_ onPostgres: Bool) async throws {
        try await FieldService.with(onPostgres) { service in
            try await service.put("Customer", "c")
            try await service.put("Job", "j")
            for (parent, expected) in [("nobody", Self.missing), ("c", "200")] {
                let patch = #"[{"op":"replace","path":"/customerID","value":"\#(parent)"}]"#
                let answer = try await service.server.send(
                    "PATCH",
                    "/tables/Job/j",
                    patch,
                    ["Content-Type": "application/json-patch+json"]
                )
                #expect(answer.referenceError == expected)
            }
        }
    }

    @Test("The references in a write of a hook are checked", arguments: FieldService.backends)
    func hooks(_ onPostgres: Bool) async throws {
        var hooks = TableHooks()
        hooks.beforeWrite = { change in change.values["customerID"] = .string("nobody") }
        try await FieldService.with(onPostgres, hooks: ["Job": hooks]) { service in
            let rejected = try await service.put("Job", "j")
            #expect(rejected.referenceError == Self.missing)
        }
    }
}
