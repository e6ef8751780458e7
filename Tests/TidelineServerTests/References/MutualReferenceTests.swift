// MutualReferenceTests: rows that refer to each other are inserted in one group, and deleted in one batch with the
// versions that the caller has read.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore
import TidelineTestKit

@Suite struct MutualReferenceTests {
    private static let backends = FieldService.backends

    /// A way to delete rows in a batch.
    enum Way: CaseIterable {
        case group
        case groupWithoutTombstones
        case alone
    }

    /// Customers with contacts, of which one is the main one, and a tree of places.
    private static func tables(
        softDelete: Bool = true,
        conflict: ConflictRule = .reject
    ) -> [TableDefinition] {
        func table(_ name: String, _ references: [TableReference]) -> TableDefinition {
            TableDefinition(
                name,
                columns: references.map { ColumnDefinition($0.column, .string) },
                softDelete: softDelete,
                conflict: conflict,
                references: references
            )
        }
        return [
            table("Customer", [TableReference("mainID", to: "Contact", onDelete: .setNull)]),
            table("Contact", [TableReference("customerID", to: "Customer", onDelete: .cascade)]),
            table("Place", [TableReference("inID", to: "Place", onDelete: .cascade)]),
        ]
    }

    /// Stores a customer whose main contact is `k`, and a cycle of three places; returns their versions.
    private func fill(_ service: FieldService) async throws -> [String: String] {
        try await service.put("Customer", "c")
        let contact = try await service.put("Contact", "k", ["customerID": "c"])
        let customer = try await service.patch("Customer", "c", ["mainID": "k"])
        try await service.put("Place", "p1")
        let second = try await service.put("Place", "p2", ["inID": "p1"])
        let third = try await service.put("Place", "p3", ["inID": "p2"])
        let first = try await service.patch("Place", "p1", ["inID": "p3"])
        var versions: [String: String] = [:]
        for answer in [contact, customer, first, second, third] {
            let id = try #require(answer.row["id"] as? String)
            versions[id] = try #require(answer.row["version"] as? String)
        }
        return versions
    }

    private func delete(
        _ table: String,
        _ id: String,
        _ version: String?,
        group: String? = nil
    ) -> BatchPart {
        BatchPart(
            id,
            "delete",
            "tables/\(table)/\(id)",
            group: group,
            headers: version.map { ["if-match": "\"\($0)\""] } ?? [:]
        )
    }

    private func send(
        _ service: FieldService,
        _ parts: [BatchPart],
        continues: Bool = false
    ) async throws -> ServerResponse {
        let requests = parts.map(\.json).joined(separator: ",")
        return try await service.server.send(
            "POST",
            "/$batch",
            "{\"requests\":[\(requests)]}",
            continues ? ["Prefer": "continue-on-error"] : [:]
        )
    }

    @Test(
        "Rows that refer to each other are deleted with the versions that the caller has read",
        arguments: backends,
        Way.allCases
    )
    func cycles(onPostgres: Bool, _ way: Way) async throws {
        let tables = Self.tables(softDelete: way != .groupWithoutTombstones)
        let group = way == .alone ? nil : "g"
        try await FieldService.with(onPostgres, tables) { service in
            let versions = try await fill(service)
            let link = try await service.deltaLink("Place")
            let customer = try await send(
                service,
                [
                    delete("Contact", "k", versions["k"], group: group),
                    delete("Customer", "c", versions["c"], group: group),
                ]
            )
            #expect(customer.partStatuses == [204, 204], "\(customer.text)")
            let places = try await send(
                service,
                ["p1", "p3", "p2"].map { delete("Place", $0, versions[$0], group: group) }
            )
            #expect(places.partStatuses == [204, 204, 204], "\(places.text)")
            for table in ["Customer", "Contact", "Place"] {
                #expect(try await service.ids(table).isEmpty)
            }
            let changes = try await service.server.send("GET", link)
            let removed = changes.rows.filter { $0["@removed"] != nil }
            #expect(removed.compactMap { $0["id"] as? String }.sorted() == ["p1", "p2", "p3"])
        }
    }

    private func insert(_ table: String, _ body: String, group: String? = "g") -> BatchPart {
        BatchPart(body, "post", "tables/\(table)", body, group: group)
    }

    @Test("Rows that refer to each other are inserted in one group", arguments: backends)
    func inserted(onPostgres: Bool) async throws {
        try await FieldService.with(onPostgres, Self.tables()) { service in
            for (number, isReversed) in [(1, false), (2, true)] {
                let rows = [
                    insert("Customer", #"{"id":"c\#(number)","mainID":"k\#(number)"}"#),
                    insert("Contact", #"{"id":"k\#(number)","customerID":"c\#(number)"}"#),
                ]
                let answer = try await send(service, isReversed ? rows.reversed() : rows)
                #expect(answer.partStatuses == [201, 201], "\(answer.text)")
            }
            let places = try await send(
                service,
                ["13", "21", "32"].map { pair in
                    let names = pair.map(String.init)
                    return insert("Place", #"{"id":"p\#(names[0])","inID":"p\#(names[1])"}"#)
                }
            )
            #expect(places.partStatuses == [201, 201, 201], "\(places.text)")
            #expect(try await service.ids("Customer") == ["c1", "c2"])
            #expect(try await service.ids("Place") == ["p1", "p2", "p3"])
        }
    }

    @Test("A group is rejected if a parent is missing at its end", arguments: backends)
    func missing(onPostgres: Bool) async throws {
        try await FieldService.with(onPostgres, Self.tables()) { service in
            let customer = #"{"id":"c","mainID":"k"}"#
            let alone = try await send(
                service,
                [
                    insert("Customer", customer, group: nil),
                    insert("Contact", #"{"id":"k"}"#, group: nil),
                ]
            )
            #expect(alone.partStatuses == [409, 424])
            #expect(alone.partBody(0)["code"] as? String == "parentNotFound")
            let failing = try await send(
                service,
                [
                    insert("Customer", customer),
                    insert("Contact", #"{"id":"k","customerID":"nobody"}"#),
                ]
            )
            #expect(failing.partStatuses == [409, 424])
            let undone = try await send(
                service,
                [
                    insert("Customer", customer),
                    insert("Contact", #"{"id":"k","customerID":"c"}"#),
                    delete("Place", "nowhere", nil, group: "g"),
                ]
            )
            #expect(undone.partStatuses == [424, 424, 404])
            #expect(try await service.ids("Customer").isEmpty)
            let deleted = try await send(
                service,
                [
                    insert("Contact", #"{"id":"k"}"#),
                    delete("Contact", "k", nil, group: "g"), insert("Customer", customer),
                ]
            )
            #expect(deleted.partStatuses == [424, 424, 409], "\(deleted.text)")
            // The delete of the parent applies its rule to the child.
            let cleared = try await send(
                service,
                [
                    insert("Customer", customer),
                    insert("Contact", #"{"id":"k","customerID":"c"}"#),
                    delete("Contact", "k", nil, group: "g"),
                ]
            )
            #expect(cleared.partStatuses == [201, 201, 204], "\(cleared.text)")
            let row = try await service.server.send("GET", "/tables/Customer/c").row
            #expect(row["mainID"] is NSNull)
        }
    }

    @Test(
        "A version that another caller has replaced is still a conflict in a group",
        arguments: backends
    )
    func others(onPostgres: Bool) async throws {
        try await FieldService.with(onPostgres, Self.tables()) { service in
            let versions = try await fill(service)
            _ = try await service.patch("Customer", "c", ["mainID": "k"], by: "bert")
            _ = try await service.patch("Place", "p3", ["inID": "p1"], by: "bert")
            let customer = try await send(
                service,
                [
                    delete("Contact", "k", versions["k"], group: "g"),
                    delete("Customer", "c", versions["c"], group: "g"),
                ]
            )
            #expect(customer.partStatuses == [424, 412])
            let places = try await send(
                service,
                ["p1", "p3"].map { delete("Place", $0, versions[$0], group: "g") }
            )
            #expect(places.partStatuses == [424, 410])
            #expect(try await service.ids("Contact") == ["k"])
            #expect(try await service.ids("Place") == ["p1", "p2", "p3"])
        }
    }

    @Test(
        "A row that a rejected group deleted exists for the requests after the group",
        arguments: backends
    )
    func undone(onPostgres: Bool) async throws {
        try await FieldService.with(onPostgres, Self.tables()) { service in
            let versions = try await fill(service)
            let answer = try await send(
                service,
                [
                    delete("Place", "p1", versions["p1"], group: "g"),
                    delete("Place", "nowhere", "AAAAAAAAAAA=", group: "g"),
                    delete("Place", "p2", versions["p2"]),
                ],
                continues: true
            )
            #expect(answer.partStatuses == [424, 404, 204])
            #expect(try await service.ids("Place").isEmpty)
        }
    }

    @Test("A caller without the version learns nothing about a deleted row", arguments: backends)
    func unread(onPostgres: Bool) async throws {
        try await FieldService.with(onPostgres, Self.tables()) { service in
            let versions = try await fill(service)
            let answer = try await send(
                service,
                [
                    delete("Place", "p1", versions["p1"]), delete("Place", "p2", nil),
                    delete("Place", "p3", "AAAAAAAAAAA="),
                ],
                continues: true
            )
            #expect(answer.partStatuses == [204, 410, 410])
        }
    }

    @Test(
        "A later change of a row that lost its reference may state the version that was read",
        arguments: backends,
        [ConflictRule.reject, .merge]
    )
    func changed(onPostgres: Bool, conflict: ConflictRule) async throws {
        try await FieldService.with(onPostgres, Self.tables(conflict: conflict)) { service in
            let versions = try await fill(service)
            let match = ["if-match": "\"\(versions["c"] ?? "")\""]
            let answer = try await send(
                service,
                [
                    delete("Contact", "k", versions["k"], group: "g"),
                    BatchPart("2", "post", "tables/Contact", #"{"id":"l"}"#, group: "g"),
                    BatchPart(
                        "3",
                        "patch",
                        "tables/Customer/c",
                        #"{"mainID":"l"}"#,
                        group: "g",
                        headers: match
                    ),
                ]
            )
            #expect(answer.partStatuses == [204, 201, 200], "\(answer.text)")
            let customer = try await service.server.send("GET", "/tables/Customer/c")
            #expect(customer.row["mainID"] as? String == "l")
            // Afterwards it counts as any other version.
            let again = try await service.server.send(
                "PATCH",
                "/tables/Customer/c",
                #"{"mainID":null}"#,
                ["If-Match": "\"\(versions["c"] ?? "")\""]
            )
            #expect(again.status == 412)
        }
    }
}
