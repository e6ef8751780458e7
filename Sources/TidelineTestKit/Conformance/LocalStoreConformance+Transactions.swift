// LocalStoreConformance+Transactions: checks for transactions, change streams, and the content of a
// reopened store.

import Foundation
import Tideline
import TidelineCore

extension LocalStoreConformance {
    private struct Stop: Error {}

    static let transactionChecks: [Check] = [
        Check("a transaction that throws has no effect") { probe in
            try await probe.put([Sample.row("1")])
            let isThrown = await probe.throwsError {
                try await probe.store.write { writer in
                    try writer.put(
                        [Sample.row("2"), Sample.row("1", "text", "x")],
                        in: Sample.name
                    )
                    try writer.delete(ids: ["1"], in: Sample.name)
                    try writer.put([["id": "1"]], in: Sample.other.name)
                    throw Stop()
                }
            }
            try probe.expect(isThrown, "the error is swallowed")
            try probe.expect(try await probe.rows() == [Sample.row("1")], "rows changed")
            let others = try await probe.store.read { try $0.count(nil, in: Sample.other.name) }
            try probe.expect(others == 0, "another table changed")
            try await probe.put([Sample.row("3")])
            try probe.expect(try await probe.row("3") != nil, "a write after the transaction fails")
        },
        Check("a transaction sees its own writes") { probe in
            let counts = try await probe.store.write { writer in
                try writer.put([Sample.row("1"), Sample.row("2")], in: Sample.name)
                let before = try writer.count(nil, in: Sample.name)
                try writer.delete(ids: ["1"], in: Sample.name)
                let row = try writer.row(id: "1", in: Sample.name)
                return [before, try writer.count(nil, in: Sample.name), row == nil ? 0 : 1]
            }
            try probe.expect(counts == [2, 1, 0], "the transaction sees \(counts)")
        },
        Check("a read sees earlier writes") { probe in
            for number in 1...20 {
                try await probe.put([Sample.row("1", "whole", .integer(Int64(number)))])
                let found = try await probe.row("1")?["whole"]
                try probe.expect(found == .integer(Int64(number)), "the read sees an older state")
            }
        },
        Check("transactions are isolated from each other") { probe in
            try await probe.put([Sample.row("1", "whole", 0)])
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<60 {
                    group.addTask { try await probe.store.write { try increment($0, "1") } }
                }
                try await group.waitForAll()
            }
            let sum = try await probe.row("1")?["whole"]
            try probe.expect(sum == 60, "the sum of 60 steps is \(String(describing: sum))")
        },
        Check("a read sees a single state") { probe in
            try await probe.put([Sample.row("1", "whole", 0), Sample.row("2", "whole", 0)])
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<40 {
                    group.addTask {
                        try await probe.store.write { writer in
                            try increment(writer, "1")
                            try increment(writer, "2")
                        }
                    }
                    group.addTask {
                        let rows = try await probe.rows()
                        let values = rows.compactMap { $0["whole"] }
                        try probe.expect(
                            values.count == 2 && values[0] == values[1],
                            "the read sees half of a transaction"
                        )
                    }
                }
                try await group.waitForAll()
            }
        },
        Check("changes contain the tables of a transaction after its end") { probe in
            var changes = probe.store.changes().makeAsyncIterator()
            _ = await probe.throwsError {
                try await probe.store.write { writer in
                    try writer.put([["id": "1"]], in: Sample.name)
                    throw Stop()
                }
            }
            _ = try await probe.rows()
            try await probe.put([["id": "1"]], in: Sample.other.name)
            let first = await changes.next()
            try probe.expect(first == [Sample.other.name], "the first change is \(first ?? [])")
            try await probe.store.write { writer in
                try writer.put([["id": "2"]], in: Sample.name)
                try writer.delete(ids: ["1"], in: Sample.other.name)
            }
            let second = await changes.next()
            try probe.expect(
                second == [Sample.name, Sample.other.name],
                "the change of two tables is \(second ?? [])"
            )
        },
        Check("no change is lost among many others") { probe in
            var one = probe.store.changes().makeAsyncIterator()
            var two = probe.store.changes().makeAsyncIterator()
            try await probe.put([["id": "1"]])
            for number in 0..<200 {
                try await probe.put([["id": .string("\(number)")]], in: Sample.other.name)
            }
            var seen: Set<String> = []
            while !seen.contains(Sample.other.name), let more = await one.next() {
                seen.formUnion(more)
            }
            try probe.expect(seen.contains(Sample.name), "a slow listener saw only \(seen)")
            let other = await two.next()
            try probe.expect(other?.isEmpty == false, "a second listener saw nothing")
        },
        Check("reopening keeps rows and adds columns") { probe in
            try await probe.put([Sample.row("1")])
            let more = TableSchema(
                name: Sample.name,
                columns: Sample.columns + [ColumnDefinition("added", .integer)]
            )
            try await probe.store.open(tables: [more, Sample.other, Sample.local])
            var wanted = Sample.row("1")
            wanted["added"] = .null
            let row = try await probe.row("1")
            try probe.expect(row == wanted, "the row is \(String(describing: row))")
            try await probe.put([Sample.row("2", "added", 5)])
            let filter = try Filter { $0["added"] == 5 }
            let ids = try await probe.ids(TableQuery(filter: filter))
            try probe.expect(ids, ["2"], "a filter by the new column")
        },
        Check("a store that is reopened by name has its rows") { probe in
            var row = Sample.row("1")
            row["new"] = "kept"
            try await probe.put([row])
            try await probe.put([["id": 7, "a": "x"]], in: Sample.local.name)
            let again = try await probe.stores("first")
            try await again.open(tables: [Sample.schema, Sample.other, Sample.local])
            let found = try await again.read { try $0.row(id: "1", in: Sample.name) }
            try probe.expect(found == row, "the row is \(String(describing: found))")
            let local = try await again.read { try $0.row(id: 7, in: Sample.local.name) }
            try probe.expect(local?["a"] == "x", "the row with an integer key is lost")
        },
        Check("another name is another store") { probe in
            try await probe.put([Sample.row("1")])
            let second = try await probe.stores("second")
            try await second.open(tables: [Sample.schema])
            let rows = try await second.read { try $0.rows(TableQuery(), in: Sample.name) }
            try probe.expect(rows.isEmpty, "the other store has the rows of the first")
        },
    ]

    static func increment(_ writer: any LocalStoreWriter, _ id: String) throws {
        var row = try writer.row(id: .string(id), in: Sample.name) ?? Row()
        guard case .integer(let number) = row["whole"] else { return }
        row["whole"] = .integer(number + 1)
        try writer.put([row], in: Sample.name)
    }
}
