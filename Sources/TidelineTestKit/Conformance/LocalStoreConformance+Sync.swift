// LocalStoreConformance+Sync: checks for the optional requirements for pulls, records, related
// rows, and searches.

import Foundation
import Tideline
import TidelineCore

extension LocalStoreConformance {
    private struct Stop: Error {}

    static let syncChecks: [Check] = [
        Check("a repeatable transaction is applied once, or not at all") { probe in
            try await probe.put([Sample.row("1", "whole", 0)])
            var changes = probe.store.changes().makeAsyncIterator()
            let sum = try await probe.store.writeRepeatable { writer in
                try increment(writer, "1")
                return try writer.row(id: "1", in: Sample.name)?["whole"]
            }
            try probe.expect(sum == 1, "the transaction sees \(String(describing: sum))")
            let stored = try await probe.row("1")?["whole"]
            try probe.expect(stored == 1, "the value is \(String(describing: stored))")
            let change = await changes.next()
            try probe.expect(change == [Sample.name], "the change is \(change ?? [])")
            let isThrown = await probe.throwsError {
                try await probe.store.writeRepeatable { writer in
                    try increment(writer, "1")
                    try writer.put([Sample.row("2")], in: Sample.name)
                    throw Stop()
                }
            }
            try probe.expect(isThrown, "the error is swallowed")
            try probe.expect(try await probe.row("2") == nil, "half of it was stored")
            let kept = try await probe.row("1")?["whole"]
            try probe.expect(kept == 1, "half of it was stored: \(String(describing: kept))")
        },
        Check("a write keeps the repeatable transactions that preceded it") { probe in
            try await probe.store.writeRepeatable { try $0.put([Sample.row("1")], in: Sample.name) }
            try await probe.put([Sample.row("2")])
            let again = try await probe.stores("first")
            try await again.open(tables: tables)
            let found = try await again.read { try $0.rows(TableQuery(), in: Sample.name) }
            try probe.expect(found.map(\.id), ["1", "2"], "the rows of the reopened store")
        },
        Check("a page is stored like its rows") { probe in
            let page = try probe.page
            let old: Row = ["id": "1", "text": "old", "whole": 1, "new": "old"]
            let (wanted, found) = try await probe.store.write { writer in
                let table = Sample.synced.name
                try writer.put([old], in: table)
                try writer.put(page.rows(), in: table)
                let wanted = try writer.rows(TableQuery(), in: table)
                try writer.delete(ids: ["1", "2"], in: table)
                try writer.put([old], in: table)
                try writer.put(page: page, in: table)
                return (wanted, try writer.rows(TableQuery(), in: table))
            }
            try probe.expect(found.map(\.id), ["1", "2"], "the rows of the page")
            try probe.expect(found == wanted, "\(found) instead of \(wanted)")
            let text = found.first?["text"]
            try probe.expect(text == "milk \u{e9}", "the text is \(String(describing: text))")
            let mask = found.first?[maskName]
            try probe.expect(mask == 5, "the membership mask is \(String(describing: mask))")
            let later = try await probe.rows(in: Sample.synced.name)
            try probe.expect(later == wanted, "after the transaction: \(later)")
        },
        Check("a transaction that throws stores no page") { probe in
            let page = try probe.page
            let isThrown = await probe.throwsError {
                try await probe.store.writeRepeatable { writer in
                    try writer.put(page: page, in: Sample.synced.name)
                    throw Stop()
                }
            }
            try probe.expect(isThrown, "the error is swallowed")
            let rows = try await probe.rows(in: Sample.synced.name)
            try probe.expect(rows.isEmpty, "the rows are \(rows)")
        },
        Check("the rows of records are the rows of a query") { probe in
            var row = Sample.row("2")
            row["new"] = "kept"
            let low = Sample.row("3", "whole", 1)
            let rows = [Sample.row("1"), row, low, Sample.row("4", "whole", 9)]
            try await probe.put(rows, in: Sample.synced.name)
            var query = TableQuery(filter: try Filter { $0["whole"] > 2 })
            query.order = [SortKey(column: "id", ascending: false)]
            (query.limit, query.offset) = (2, 1)
            var narrow = query
            narrow.select = ["id", "text", "whole"]
            for query in [query, narrow] {
                for column in [maskName, "text"] {
                    let (found, wanted) = try await probe.store.read { [query] reader in
                        let table = Sample.synced.name
                        let rows = try reader.recordRows(query, in: table, omitting: column)
                        return (rows, try reader.rows(query, in: table, omitting: column))
                    }
                    let whole = found.map(withUnknownMember)
                    try probe.expect(whole.map(\.id), ["2", "1"], "the rows of records")
                    try probe.expect(whole == wanted, "\(whole) instead of \(wanted)")
                }
            }
        },
        Check("a store that evaluates conditions on other tables finds the same rows") { probe in
            try await probe.put(["a", "b", "c"].map { ["id": .string($0), "text": .string($0)] })
            try await probe.put([["id": "4", "text": "a"], ["id": "5"]])
            let parents: [Row] = [["id": "a", "a": "yes"], ["id": "b", "a": "no"], ["id": "d"]]
            try await probe.put(parents, in: Sample.other.name)
            let isYes = try Filter { $0["a"] == "yes" }.expression
            let cases: [(QueryExpression?, [String])] = [
                (isYes, ["4", "a"]), (nil, ["4", "a", "b"]),
            ]
            for (condition, ids) in cases {
                let parent = RelatedRows(
                    column: "text",
                    table: Sample.other.name,
                    key: "id",
                    condition: condition
                )
                let filter = Filter(.related(parent))
                let found = try await probe.store.read { reader -> (rows: [Row], count: Int)? in
                    guard reader.evaluatesRelatedRows else { return nil }
                    let rows = try reader.rows(TableQuery(filter: filter), in: Sample.name)
                    return (rows, try reader.count(filter, in: Sample.name))
                }
                // Otherwise, the client passes a list of keys, which is an ordinary filter.
                guard let found else { return }
                try probe.expect(found.rows.map(\.id), ids, "the rows with a parent")
                try probe.expect(found.count == ids.count, "the count is \(found.count)")
            }
        },
        Check("a search finds rows until they are purged, or is rejected") { probe in
            let pears: [Row] = [["id": "1", "text": "red pear"], ["id": "2", "text": "pear"]]
            try await probe.put(pears, in: Sample.synced.name)
            let both = try await probe.searched("pear")
            let first = try await probe.searched("red")
            try await probe.store.write { writer in
                try writer.delete(ids: ["1"], in: Sample.synced.name)
                try writer.eraseRemovedWords(in: Sample.synced.name)
            }
            let rows = try await probe.rows(in: Sample.synced.name)
            try probe.expect(rows.map(\.id), ["2"], "the rows after a purge")
            let rest = try await probe.searched("pear")
            let purged = try await probe.searched("red")
            let found = [both, first, rest, purged]
            let wanted: [[String]?] = [["1", "2"], ["1"], ["2"], []]
            let none = [[String]?](repeating: nil, count: wanted.count)
            try probe.expect(found == wanted || found == none, "\(found) instead of \(wanted)")
        },
        Check("the listeners of the store's own check are always the same") { probe in
            let first = probe.store.checkListeners
            try await probe.put([Sample.row("1")])
            let isSame = probe.store.checkListeners === first
            try probe.expect(isSame, "a context that was added would miss events")
        },
    ]

    private static let maskName = Sample.synced.columns.last?.name ?? ""

    /// Returns a row from ``LocalStoreReader/recordRows(_:in:omitting:)`` in which the unknown
    /// member has its own name.
    private static func withUnknownMember(_ row: Row) -> Row {
        var whole = row
        switch row["__extra"] {
        case .json(JSON(checked: #"{"new":"kept"}"#))?:
            whole["__extra"] = nil
            whole["new"] = "kept"
        // No unknown members.
        case .null?, .json(JSON(checked: "{}"))?: whole["__extra"] = nil
        case nil, .some: break
        }
        return whole
    }
}

extension LocalStoreConformance.Probe {
    /// A page of two rows with a value or null in every column, for queries with the mask 5.
    fileprivate var page: RowPage {
        get throws {
            let body = """
                [{"id":"1","text":"milk \\u00e9","whole":7,"real":1.5,"exact":12.50,"flag":true,\
                "instant":"2026-01-02T03:04:05.678Z","day":"2026-11-20","clock":"07:14:00.000",\
                "key":"6ba7b810-9dad-11d1-80b4-00c04fd430c8","bytes":"AP8=",\
                "document":{"a":[1,null]},"level":"high","version":"v1",\
                "createdAt":"2026-01-01T00:00:00.000Z","updatedAt":"2026-01-02T00:00:00.000Z"},\
                {"id":"2","text":null,"whole":null,"real":null,"exact":null,"flag":null,\
                "instant":null,"day":null,"clock":null,"key":null,"bytes":null,"document":null,\
                "level":null,"version":"v1","createdAt":null,"updatedAt":null}]
                """
            let schema = LocalStoreConformance.Sample.synced
            let answer = TransportResponse(status: 200, body: Array(body.utf8))
            guard let cells = PulledPage(answer, schema: schema, asCells: true)?.cells else {
                throw LocalStoreConformance.Failure(check: check, detail: "the page is not read")
            }
            return RowPage(cells, bits: 5, schema: schema)
        }
    }

    /// Returns the sorted ids of the rows that a search finds; nil if the store does not support
    /// searches.
    ///
    /// - Throws: ``LocalStoreConformance/Failure`` if a query and a count disagree with the search.
    fileprivate func searched(_ text: String) async throws -> [String]? {
        let table = LocalStoreConformance.Sample.synced.name
        let filter = Filter(.search(.matches(text)))
        let query = TableQuery(filter: filter)
        let search = try await found { try $0.search(query, in: table).map(\.row.id).sorted() }
        let rows = try await found { try $0.rows(query, in: table).map(\.id).sorted() }
        let count = try await found { try $0.count(filter, in: table) }
        try expect(rows == search, "a query finds \(rows ?? []), a search \(search ?? [])")
        try expect(count == search?.count, "the count of \(search ?? []) is \(count ?? 0)")
        return search
    }

    /// Returns the result of a read; nil if the store rejects the read with `unsupportedQuery`.
    private func found<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreReader) throws -> Result
    ) async throws -> Result? {
        do {
            return try await store.read(body)
        } catch let error as SyncError where error.code == .unsupportedQuery {
            return nil
        }
    }
}
