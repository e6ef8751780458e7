// DeleteRuleTests: what follows the delete of a row that other rows refer to, on both databases.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore
import TidelineTestKit

@Suite struct DeleteRuleTests {
    @Test(
        "The rule restrict rejects the delete of a row that live rows refer to",
        arguments: FieldService.backends
    )
    func restrict(_ onPostgres: Bool) async throws {
        try await FieldService.with(onPostgres) { service in
            try await service.put("Customer", "c")
            try await service.put("Job", "j", ["customerID": "c"])
            try await service.put("Job", "k", ["customerID": "c"])
            try await service.put("Invoice", "i", ["jobID": "j"])
            let rejected = "409 rowIsReferenced jobID Invoice"
            #expect(try await service.delete("Job", "j").referenceError == rejected)
            let patched = try await service.server.send(
                "PATCH",
                "/tables/Job/j",
                #"{"deleted":true}"#
            )
            #expect(patched.referenceError == rejected)
            // A rejection among the rows of a cascade rejects all of it.
            #expect(try await service.delete("Customer", "c").referenceError == rejected)
            #expect(try await service.ids("Job") == ["j", "k"])
            #expect(try await service.delete("Invoice", "i").status == 204)
            #expect(try await service.delete("Customer", "c").status == 204)
            #expect(try await service.ids("Job").isEmpty)
        }
    }

    @Test(
        "The rule setNull clears the references as a write does",
        arguments: FieldService.backends
    )
    func setNull(_ onPostgres: Bool) async throws {
        try await FieldService.with(onPostgres) { service in
            try await service.put("Customer", "c")
            for id in ["a", "b", "d"] { try await service.put("Note", id, ["customerID": "c"]) }
            try await service.put("Note", "other")
            #expect(try await service.delete("Note", "d").status == 204)
            let before = try await service.server.send("GET", "/tables/Note/a").row
            let link = try await service.deltaLink("Note")
            #expect(try await service.delete("Customer", "c", by: "bela").status == 204)
            let after = try await service.server.send("GET", "/tables/Note/a").row
            #expect(after["customerID"] is NSNull)
            #expect(before["version"] as? String != after["version"] as? String)
            let changes = try await service.server.send("GET", link)
            #expect(changes.ids.sorted() == ["a", "b"])
            #expect(
                try service.server.shown(AuditQuery(table: "Note", user: "bela"))
                    == ["Note a update bela customerID", "Note b update bela customerID"]
            )
        }
    }

    @Test("The rule cascade deletes the rows of all levels", arguments: FieldService.backends)
    func cascade(_ onPostgres: Bool) async throws {
        try await FieldService.with(onPostgres) { service in
            for c in ["c", "d"] {
                try await service.put("Customer", c)
                for j in ["1", "2"] {
                    try await service.put("Job", c + j, ["customerID": c])
                    for v in ["x", "y"] {
                        try await service.put("Visit", c + j + v, ["jobID": c + j])
                    }
                }
            }
            let link = try await service.deltaLink("Visit")
            #expect(try await service.delete("Customer", "c", by: "bela").status == 204)
            #expect(try await service.ids("Job") == ["d1", "d2"])
            #expect(try await service.ids("Visit") == ["d1x", "d1y", "d2x", "d2y"])
            let changes = try await service.server.send("GET", link)
            #expect(changes.ids.sorted() == ["c1x", "c1y", "c2x", "c2y"])
            #expect(changes.rows.allSatisfy { $0["@removed"] != nil })
            #expect(
                try service.server.shown(AuditQuery(user: "bela")).sorted() == [
                    "Customer c delete bela ", "Job c1 delete bela ", "Job c2 delete bela ",
                    "Visit c1x delete bela ", "Visit c1y delete bela ", "Visit c2x delete bela ",
                    "Visit c2y delete bela ",
                ]
            )
            // A tombstone keeps its reference.
            let row = try await service.server.send("GET", "/tables/Job/c1?__includeDeleted=true")
            #expect(row.row["customerID"] as? String == "c")
        }
    }

    @Test(
        "A delete clears references in rows that the caller may not see, too",
        arguments: FieldService.backends
    )
    func hiddenRows(_ onPostgres: Bool) async throws {
        let tables = FieldService.tables { tables in
            tables[4].owner = "userId"
            tables[4].completeOwner()
        }
        try await FieldService.with(onPostgres, tables) { service in
            try await service.put("Customer", "c")
            try await service.put("Note", "n", ["customerID": "c"], by: "anna")
            #expect(try await service.delete("Customer", "c", by: "bela").status == 204)
            let row = try await service.server.send("GET", "/tables/Note/n", by: "anna").row
            #expect(row["customerID"] is NSNull)
        }
    }

    @Test(
        "A cascade deletes rows that refer to themselves or to each other in a cycle",
        arguments: FieldService.backends
    )
    func cycles(_ onPostgres: Bool) async throws {
        let tables = FieldService.tables { tables in
            tables[2].references[1].onDelete = .cascade
        }
        try await FieldService.with(onPostgres, tables) { service in
            try await service.put("Visit", "a", ["nextID": "a"])
            try await service.put("Visit", "b", ["nextID": "a"])
            try await service.put("Visit", "c", ["nextID": "b"])
            #expect(try await service.patch("Visit", "a", ["nextID": "c"]).status == 200)
            try await service.put("Visit", "free")
            #expect(try await service.delete("Visit", "b").status == 204)
            #expect(try await service.ids("Visit") == ["free"])
            let rows = try await service.server.send("GET", "/tables/Visit?__includeDeleted=true")
            #expect(Set(rows.rows.compactMap { $0["version"] as? String }).count == 4)
        }
    }

    @Test(
        "A restricting reference of a row to itself does not prevent its delete",
        arguments: FieldService.backends
    )
    func ownReference(_ onPostgres: Bool) async throws {
        let tables = FieldService.tables { $0[2].references[1].onDelete = .restrict }
        try await FieldService.with(onPostgres, tables) { service in
            try await service.put("Visit", "a", ["nextID": "a"])
            try await service.put("Visit", "b", ["nextID": "a"])
            let rejected = try await service.delete("Visit", "a")
            #expect(rejected.referenceError == "409 rowIsReferenced nextID Visit")
            #expect(try await service.delete("Visit", "b").status == 204)
            #expect(try await service.delete("Visit", "a").status == 204)
        }
    }

    @Test("Tables without tombstones follow the rules", arguments: FieldService.backends)
    func hardDeletes(_ onPostgres: Bool) async throws {
        let tables = FieldService.tables { tables in
            for place in tables.indices { tables[place].softDelete = false }
        }
        try await FieldService.with(onPostgres, tables) { service in
            try await service.put("Customer", "c")
            try await service.put("Job", "j", ["customerID": "c"])
            try await service.put("Visit", "v", ["jobID": "j"])
            try await service.put("Note", "n", ["customerID": "c"])
            try await service.put("Invoice", "i", ["jobID": "j"])
            let rejected = try await service.delete("Customer", "c")
            #expect(rejected.referenceError == "409 rowIsReferenced jobID Invoice")
            #expect(try await service.delete("Invoice", "i").status == 204)
            #expect(try await service.delete("Customer", "c").status == 204)
            for table in ["Customer", "Job", "Visit"] {
                #expect(try await service.ids(table).isEmpty)
            }
            #expect(try await service.ids("Note") == ["n"])
        }
    }

    @Test(
        "A batch may delete the restricting rows before the row that they refer to",
        arguments: FieldService.backends
    )
    func orderInBatches(_ onPostgres: Bool) async throws {
        try await FieldService.with(onPostgres) { service in
            try await service.put("Customer", "c")
            try await service.put("Job", "j", ["customerID": "c"])
            try await service.put("Invoice", "i", ["jobID": "j"])
            func statuses(_ targets: [String]) async throws -> [Int?] {
                let parts = targets.enumerated().map { number, target in
                    """
                    {"id":"\(number)","method":"DELETE","url":"/tables/\(target)",\
                    "atomicityGroup":"g"}
                    """
                }
                let body = "{\"requests\":[\(parts.joined(separator: ","))]}"
                let answer = try await service.server.send("POST", "/$batch", body)
                return (answer.row["responses"] as? [[String: Any]] ?? []).map {
                    $0["status"] as? Int
                }
            }
            #expect(try await statuses(["Customer/c", "Invoice/i"]).contains(409))
            #expect(try await service.ids("Job") == ["j"])
            #expect(try await service.ids("Invoice") == ["i"])
            #expect(try await statuses(["Invoice/i", "Customer/c"]) == [204, 204])
            #expect(try await service.ids("Job").isEmpty)
        }
    }

    @Test("A repeated delete is executed once", arguments: FieldService.backends)
    func repeats(_ onPostgres: Bool) async throws {
        try await FieldService.with(onPostgres) { service in
            try await service.put("Customer", "c")
            try await service.put("Job", "j", ["customerID": "c"])
            let key: HTTPFields = [
                "Repeatability-Request-ID": "9b2b4a0e-6a3c-4d9e-8f0a-0c4bb1ad1c11",
                "Repeatability-First-Sent": "Fri, 15 Jan 2027 08:00:00 GMT",
            ]
            var statuses: [Int] = []
            for _ in 0..<2 {
                statuses.append(
                    try await service.server.send("DELETE", "/tables/Customer/c", nil, key).status
                )
            }
            #expect(statuses == [204, 204])
            #expect(try service.server.audit(AuditQuery(table: "Job")).count == 2)
        }
    }
}
