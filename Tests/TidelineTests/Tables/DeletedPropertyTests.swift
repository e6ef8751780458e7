// The system property `deleted` in queries on the device, whose rows are never deleted.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

private struct Marked: SyncRecord, Hashable {
    static let tableName = "Todo"
    var id = ""
    var text = ""
    var complete = false
    var deleted = false
}

@Suite(.timeLimit(.minutes(10))) struct DeletedPropertyTests {
    private static let conditions = [
        "deleted eq false", "not deleted", "deleted ne true", "Deleted eq false",
        "(deleted eq false) and (complete eq false)", "deleted in (false)", "deleted eq complete",
        "not (deleted eq true)", "false eq deleted", "deleted eq null or text ne null",
    ]
    private static let others = ["deleted", "deleted eq true", "deleted and complete eq false"]

    private func device(
        _ kind: StoreKind,
        _ path: String,
        _ transport: any Transport = ScriptedTransport()
    ) async throws -> (Device, SyncTable<Marked>, SyncTable<Row>) {
        let device = try await Device(
            transport,
            store: try await kind.stores(in: path)("one"),
            tables: [Marked.self]
        )
        return (
            device, try device.client.syncTable(Marked.self),
            try device.client.syncTable(named: "Todo")
        )
    }

    @Test("Filters read the deleted property as false", arguments: StoreKind.allCases)
    func filtersReadDeletedAsFalse(kind: StoreKind) async throws {
        try await withTemporaryFile { path in
            let (_, marked, rows) = try await device(kind, path)
            try await marked.insert([Marked(id: "a", text: "x"), Marked(id: "b", text: "y")])
            for text in Self.conditions {
                let records = try await marked.read(Query(odata: "$filter=" + text)).items
                #expect(records.map(\.id) == ["a", "b"], "\(text)")
                let found = try await rows.read(Query(odata: "$filter=" + text)).items
                #expect(found.map(\.id) == ["a", "b"], "\(text)")
                #expect(try await rows.count(Query(odata: "$filter=" + text)) == 2, "\(text)")
            }
            for text in Self.others {
                #expect(try await marked.count(Query(odata: "$filter=" + text)) == 0, "\(text)")
                #expect(try await rows.count(Query(odata: "$filter=" + text)) == 0, "\(text)")
            }
            #expect(try await marked.read(where: { !$0.deleted }).count == 2)
            #expect(try await marked.read(where: #Predicate { !$0.deleted }).count == 2)
            #expect(try await marked.count(where: { $0.deleted == false && $0.text == "x" }) == 1)
            #expect(try await rows.count(where: { $0["deleted"] == false }) == 2)
        }
    }

    @Test("Orders and selections accept the deleted property", arguments: StoreKind.allCases)
    func ordersAndSelectionsAcceptDeleted(kind: StoreKind) async throws {
        try await withTemporaryFile { path in
            let (_, marked, _) = try await device(kind, path)
            try await marked.insert([Marked(id: "a", text: "x"), Marked(id: "b", text: "y")])
            let order: [SortTerm<Marked>] = [.descending(\.deleted), .descending(\.text)]
            #expect(try await marked.read(sortedBy: order).map(\.id) == ["b", "a"])
            #expect(try await marked.read(sortedBy: [.ascending(\.deleted)], limit: 1).count == 1)
            let query = try Query<Marked>().selecting(\.deleted)
            #expect(try await marked.read(query).items.map(\.deleted) == [false, false])
        }
    }

    @Test(
        "Observers, transactions and purges accept the deleted property",
        arguments: StoreKind.allCases
    )
    func observersTransactionsAndPurgesAcceptDeleted(kind: StoreKind) async throws {
        try await withTemporaryFile { path in
            let (device, marked, rows) = try await device(kind, path)
            var lists = marked.observe(where: { $0.deleted == false }).makeAsyncIterator()
            var counts = rows.observeCount(where: { $0["deleted"] == false }).makeAsyncIterator()
            #expect(try await lists.next()?.isEmpty == true)
            #expect(try await counts.next() == 0)
            try await marked.insert(Marked(id: "a", text: "x"))
            #expect(try await lists.next()?.map(\.id) == ["a"])
            #expect(try await counts.next() == 1)
            let count = try await device.context.transaction { transaction in
                try transaction.table(Marked.self).count(where: { !$0.deleted })
            }
            #expect(count == 1)
            try await marked.purge(where: { $0.deleted == true }, force: true)
            #expect(try await marked.count() == 1)
            try await marked.purge(where: { $0.deleted == false }, force: true)
            #expect(try await marked.count() == 0)
        }
    }

    /// A query without an id removes the local matches of its filter that the server does not return.
    @Test("Pulls accept the deleted property", arguments: StoreKind.allCases)
    func pullsAcceptDeleted(kind: StoreKind) async throws {
        try await withTemporaryFile { path in
            let transport = ScriptedTransport()
            let (device, marked, _) = try await device(kind, path, transport)
            transport.add(page([serverRow("a", 1), serverRow("b", 1)]))
            try await marked.pull(queryID: nil, where: { $0.deleted == false })
            transport.add(page([serverRow("b", 1)]))
            try await marked.pull(queryID: nil, where: { $0.deleted == false })
            #expect(try await marked.read().map(\.id) == ["b"])
            // An answer to a push shows whether the query still contains the row.
            transport.add(page([serverRow("b", 1)]))
            try await marked.pull(queryID: "live", where: { $0.deleted == false })
            try await marked.update(id: "b") { $0.text = "mine" }
            transport.add(.json(412, serverRow("b", 2, text: "theirs")))
            let error = try #require(try await device.push()?.errors.first)
            try await error.cancelOperationAndDiscardItem()
            #expect(try await marked.read().map(\.text) == ["theirs"])
        }
    }
}
