// LocalStoreConformance+Keys: checks for reads by several keys, and for conditions on the rows of
// other tables.

import Foundation
import Tideline
import TidelineCore

extension LocalStoreConformance {
    static let keyChecks: [Check] = [
        Check("the rows of several keys are returned, those of a key together") { probe in
            try await probe.put(children)
            try await probe.expect(
                TableQuery(),
                ["a", "b"],
                ["a": ["1", "3", "6"], "b": ["2", "5"]]
            )
            try await probe.expect(TableQuery(), ["none"], [:])
            try await probe.expect(TableQuery(), [], [:])
        },
        Check("keys are compared by their bytes") { probe in
            try await probe.put([
                ["id": "1", "text": "\u{e9}"], ["id": "2", "text": "e\u{301}"],
                ["id": "3", "text": "E"],
                ["id": "4", "text": "\"[],'"],
            ])
            try await probe.expect(TableQuery(), ["\u{e9}", "e"], ["\u{e9}": ["1"]])
            try await probe.expect(TableQuery(), ["\"[],'"], ["\"[],'": ["4"]])
        },
        Check("condition, order, limit and offset apply to the rows of each key") { probe in
            try await probe.put(children)
            var query = TableQuery(filter: try Filter { $0["whole"] > 1 })
            query.order = [SortKey(column: "whole", ascending: false)]
            try await probe.expect(query, ["a", "b"], ["a": ["6", "3"], "b": ["5", "2"]])
            query.limit = 1
            try await probe.expect(query, ["a", "b"], ["a": ["6"], "b": ["5"]])
            query.offset = 1
            try await probe.expect(query, ["a", "b"], ["a": ["3"], "b": ["2"]])
            (query.limit, query.offset) = (.max, 1)
            try await probe.expect(query, ["a", "b"], ["a": ["3"], "b": ["2"]])
            query.limit = 0
            try await probe.expect(query, ["a", "b"], [:])
        },
        Check("the rows of keys are whole, or have the selected columns and that of the key") {
            probe in
            try await probe.put([Sample.row("1")])
            let whole = try await probe.keyed(TableQuery(), ["milk"])
            try probe.expect(whole.first?["exact"] == Sample.row("1")["exact"], "\(whole)")
            try probe.expect(whole.first?["bytes"] == nil, "a column is not omitted")
            var query = TableQuery()
            query.select = ["id", "whole"]
            let names = try await probe.keyed(query, ["milk"]).first?.names ?? []
            try probe.expect(Set(names) == ["id", "whole", "text"], "the columns are \(names)")
        },
        Check("the rows of many keys are returned") { probe in
            try await probe.put(children)
            let keys = (0..<40_000).map { "k\($0)" } + ["a"]
            try await probe.expect(TableQuery(), keys, ["a": ["1", "3", "6"]])
        },
        Check("the ids of rows are keys, too") { probe in
            try await probe.put(children)
            let rows = try await probe.store.read { reader in
                let query = KeyedQuery(TableQuery(), column: "id", keys: ["2", "8", "6"])
                return try reader.keyedRows(query, in: Sample.name, omitting: "bytes")
            }
            try probe.expect(Set(rows.map(\.id)) == ["2", "6"], "the rows are \(rows.map(\.id))")
        },
        Check("the rows of keys include the changes of their transaction") { probe in
            try await probe.put(children)
            let ids = try await probe.store.write { writer in
                try writer.put([["id": "7", "text": "b"]], in: Sample.name)
                try writer.delete(ids: ["2"], in: Sample.name)
                let query = KeyedQuery(TableQuery(), column: "text", keys: ["b"])
                return try writer.keyedRows(query, in: Sample.name, omitting: "bytes").map(\.id)
            }
            try probe.expect(ids, ["5", "7"], "the rows")
        },
        Check("a column or a table that does not exist is an error") { probe in
            for (column, table) in [("none", Sample.name), ("text", "None")] {
                let isRejected = await probe.throwsError {
                    _ = try await probe.store.read { reader in
                        let query = KeyedQuery(TableQuery(), column: column, keys: ["a"])
                        return try reader.keyedRows(query, in: table, omitting: "bytes")
                    }
                }
                try probe.expect(isRejected, "column '\(column)' of table '\(table)' is accepted")
            }
        },
    ]

    private static let children: [Row] = [
        ["id": "1", "text": "a", "whole": 1], ["id": "2", "text": "b", "whole": 2],
        ["id": "3", "text": "a", "whole": 3], ["id": "4", "whole": 4],
        ["id": "5", "text": "b", "whole": 5], ["id": "6", "text": "a", "whole": 6],
        ["id": "9", "text": "c", "whole": 9],
    ]
}

extension LocalStoreConformance.Probe {
    fileprivate func keyed(_ query: TableQuery, _ keys: [String]) async throws -> [Row] {
        try await store.read { reader in
            let query = KeyedQuery(query, column: "text", keys: keys)
            return try reader.keyedRows(
                query,
                in: LocalStoreConformance.Sample.name,
                omitting: "bytes"
            )
        }
    }

    /// Compares the ids of each key's rows with the expected ones.
    fileprivate func expect(
        _ query: TableQuery,
        _ keys: [String],
        _ wanted: [Value: [String]]
    ) async throws {
        var found: [Value: [String]] = [:]
        var last: Value?
        for row in try await keyed(query, keys) {
            let key = row["text"] ?? .null
            try expect(key == last || found[key] == nil, "the rows of a key are not together")
            found[key, default: []].append(row.id)
            last = key
        }
        try expect(found == wanted, "\(found) instead of \(wanted)")
    }
}
