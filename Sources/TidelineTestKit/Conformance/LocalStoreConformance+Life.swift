// LocalStoreConformance+Life: checks for the identity, suspension, and closing of a store.

import Foundation
import Tideline
import TidelineCore

extension LocalStoreConformance {
    static let lifeChecks: [Check] = [
        Check("the identifier of the file is constant, and no other store has it") { probe in
            let first = probe.store.fileIdentity
            try await probe.put([Sample.row("1")])
            let written = probe.store.fileIdentity
            // A store may not create its file before the first transaction.
            let isConstant = first == nil || written == first
            try probe.expect(isConstant, "it is \(written ?? "nil") after a write")
            let again = try await probe.stores("first")
            try await again.open(tables: tables)
            let reopened = again.fileIdentity
            try probe.expect(reopened == written, "it is \(reopened ?? "nil") after reopening")
            let second = try await probe.stores("second")
            try await second.open(tables: tables)
            let other = second.fileIdentity
            let isUnique = written == nil || other != written
            try probe.expect(isUnique, "two stores have \(other ?? "nil")")
        },
        Check("reads and changes work while the store is suspended, and afterwards") { probe in
            var changes = probe.store.changes().makeAsyncIterator()
            try await probe.put([Sample.row("1")])
            _ = await changes.next()
            await probe.store.suspend()
            try probe.expect(try await probe.ids(TableQuery()), ["1"], "suspended")
            try await probe.put([Sample.row("2")])
            try probe.expect(try await probe.ids(TableQuery()), ["1", "2"], "suspended")
            probe.store.resume()
            try await probe.put([Sample.row("3")])
            try probe.expect(try await probe.ids(TableQuery()), ["1", "2", "3"], "resumed")
            let change = await changes.next() ?? []
            try probe.expect(change.contains(Sample.name), "the change is \(change)")
        },
        Check("an interrupted transaction is applied completely or not at all") { probe in
            let store = probe.store
            let isApplied: Bool
            do {
                try await store.write { writer in
                    try writer.put([Sample.row("1")], in: Sample.name)
                    let isDone = DispatchSemaphore(value: 0)
                    Thread.detachNewThread {
                        store.interruptTransactions()
                        isDone.signal()
                    }
                    let waited = isDone.wait(timeout: .now() + .seconds(30))
                    try probe.expect(waited == .success, "the call waits for the transaction")
                    try writer.put([Sample.row("2")], in: Sample.name)
                }
                isApplied = true
            } catch let failure as Failure {
                throw failure
            } catch {
                isApplied = false
            }
            // Simulates the suspension of the app.
            await store.suspend()
            store.resume()
            let ids = try await probe.ids(TableQuery())
            try probe.expect(ids, isApplied ? ["1", "2"] : [], "after the transaction")
            try await probe.put([Sample.row("3")])
            try probe.expect(try await probe.ids(TableQuery()), ids + ["3"], "after a change")
        },
        Check("a closed store rejects every call, or none, and its rows are kept") { probe in
            try await probe.put([Sample.row("1")])
            try await probe.store.close()
            let rejectsReads = await probe.throwsError { _ = try await probe.rows() }
            let rejectsWrites = await probe.throwsError { try await probe.put([Sample.row("2")]) }
            try probe.expect(
                rejectsReads == rejectsWrites,
                "\(rejectsReads ? "reads" : "writes") are rejected, but not \(rejectsReads ? "writes" : "reads")"
            )
            let again = try await probe.stores("first")
            do {
                try await again.open(tables: tables)
            } catch {
                // The rows of a store in memory are lost when the store is closed.
                let isInMemory = rejectsReads && again.fileIdentity == nil
                try probe.expect(isInMemory, "the store could not be reopened: \(error)")
                return
            }
            let found = try await again.read { try $0.rows(TableQuery(), in: Sample.name) }
            let wanted = rejectsWrites ? ["1"] : ["1", "2"]
            try probe.expect(found.map(\.id), wanted, "the rows of the reopened store")
        },
    ]
}
