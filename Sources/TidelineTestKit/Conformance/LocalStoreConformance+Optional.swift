// LocalStoreConformance+Optional: checks for the requirements that have default implementations.

import Foundation
import Tideline
import TidelineCore

extension LocalStoreConformance {
    static let optionalChecks: [Check] = [
        Check("a column can be left out of a read") { probe in
            try await probe.put([Sample.row("1"), Sample.row("2")])
            var wanted = Sample.row("2")
            wanted["text"] = nil
            let rows = try await probe.store.read { reader in
                let query = TableQuery(filter: try Filter { $0["id"] == "2" })
                return try reader.rows(query, in: Sample.name, omitting: "text")
            }
            try probe.expect(rows == [wanted], "\(rows) instead of \(wanted)")
        },
        Check("one column of a row can be changed") { probe in
            try await probe.put([Sample.row("1"), Sample.row("2")])
            try await probe.store.write { writer in
                try writer.set("whole", to: 4, ofRow: "1", in: Sample.name)
                try writer.set("whole", to: 5, ofRow: "missing", in: Sample.name)
            }
            var wanted = Sample.row("1")
            wanted["whole"] = 4
            let rows = try await probe.rows()
            try probe.expect(
                rows.count == 2 && rows.contains(wanted) && rows.contains(Sample.row("2")),
                "the rows are \(rows)"
            )
        },
        Check("row changes include the rows of a transaction, or all rows") { probe in
            var changes = probe.store.rowChanges().makeAsyncIterator()
            try await probe.put([["id": "1"]])
            let change = await changes.next(isolation: nil)
            let query = TableQuery(filter: try Filter { $0["id"] == "1" })
            let isReached = change?.reaches(query, of: Sample.name, shown: []) ?? false
            try probe.expect(isReached, "\(String(describing: change)) does not include row 1")
            let other = change?.reaches(query, of: Sample.other.name, shown: []) ?? true
            let described = String(describing: change)
            try probe.expect(!other, "\(described) includes a table without a change")
        },
        Check("the changes between two states are all known, or none") { probe in
            // A store may forget changes if there is no listener.
            let listened = probe.store.rowChanges()
            defer { withExtendedLifetime(listened) {} }
            let before = try await probe.store.read { $0.state }
            try await probe.put([["id": "1"]])
            try await probe.put([["id": "2"]])
            guard let before else { return }
            let (after, change) = try await probe.store.read {
                ($0.state, $0.changes(since: before))
            }
            try probe.expect(after != before, "two states are equal in spite of a change")
            for filter in [try Filter { $0["id"] == "1" }, try Filter { $0["id"] == "2" }] {
                let query = TableQuery(filter: filter)
                let isReached = change?.reaches(query, of: Sample.name, shown: []) ?? true
                try probe.expect(isReached, "\(String(describing: change)) lacks a row")
            }
        },
        Check("a row that was noted as uncertain is certain after it is stored") { probe in
            try await probe.put([Sample.row("1"), Sample.row("2")])
            func uncertain() async throws -> [String] {
                let rows = try await probe.store.read {
                    try $0.uncertainRows(nil, in: Sample.name)
                }
                return rows.changed + rows.unknown
            }
            try probe.expect(try await uncertain(), [], "stored rows are uncertain")
            try await probe.store.write { try $0.noteUncertain(rowWith: "1", in: Sample.name) }
            let noted = try await uncertain()
            try probe.expect(noted.isEmpty || noted == ["1"], "the uncertain rows are \(noted)")
            try await probe.put([Sample.row("1")])
            try probe.expect(try await uncertain(), [], "a row that was stored again is uncertain")
        },
        Check("a sync lease can be renewed, and acquired again after its release") { probe in
            let (store, now) = (probe.store, Date(timeIntervalSince1970: 1_700_000_000))
            guard let first = turn(of: store, at: now) else {
                return try probe.expect(false, "the first lease is rejected")
            }
            let holds = store.renewSyncLease(first, at: now, duration: .seconds(10))
            try probe.expect(holds, "the lease was lost")
            store.releaseSyncLease(first)
            guard let next = turn(of: store, at: now) else {
                return try probe.expect(false, "the lease is rejected after it was released")
            }
            store.releaseSyncLease(next)
        },
        Check("the log and the free space can be cleaned at any time") { probe in
            try await probe.put([Sample.row("1")])
            _ = try await probe.store.write { try $0.delete(ids: ["1"], in: Sample.name) }
            try await probe.put([Sample.row("2")])
            _ = await probe.store.checkpoint()
            await probe.store.compactIfHalfFree(deadline: .seconds(1))
            let rows = try await probe.rows()
            try probe.expect(rows == [Sample.row("2")], "the rows are \(rows)")
            let free = probe.store.freeBytes
            try probe.expect(free.map { $0 >= 0 } ?? true, "\(free ?? 0) bytes are free")
        },
    ]

    private static func turn(of store: any LocalStore, at now: Date) -> Int? {
        store.acquireSyncLease(at: now, duration: .seconds(10), isForced: false)
    }
}
