// TableStoreConformance+Rows: checks for single writes and reads.

import TidelineCore
import TidelineServerCore

extension TableStoreConformance {
    static let rowChecks = [
        Check("the response to a write, a read and a list contain the same row") { probe in
            let row = try await probe.insert("a", Sample.values)
            let read = try await probe.store.read("a", view: nil, in: Sample.table)
            try probe.expect(read?.json == row.json, "the response differs from a read")
            try probe.expect(read?.state, row.state, "the state")
            let list = try await probe.store.list(ListRequest(), in: Sample.table)
            try probe.expect(list.bytes == row.json, "the response differs from a list")
            let image = try await probe.store.image("a", view: nil, in: Sample.table)
            try probe.expect(image?.values, Sample.values.compactMap { $0 }, "the values")
        },
        Check("missing columns get their defaults, and zero has no sign") { probe in
            var values = Sample.nothing
            values[2] = .real(-0.0)
            let row = try await probe.insert("a", values)
            let read = try await probe.store.read("a", view: nil, in: Sample.table)
            try probe.expect(read?.json == row.json, "the response differs from a read")
            let image = try await probe.store.image("a", view: nil, in: Sample.table)
            try probe.expect(image?.values[1], .integer(7), "a default")
            try probe.expect(image?.values[4], .integer(0), "a column that cannot be null")
        },
        Check("an insert with an existing id returns the existing row") { probe in
            let row = try await probe.insert("a", Sample.text("one"))
            let again = try await probe.write(probe.operation(.insert, "a", Sample.text("two")))
            try probe.expect(again.decision, .exists, "the decision")
            try probe.expect(again.row?.json == row.json, "another row was returned")
            try probe.expect(try await probe.text("a"), .text("one"), "the row")
        },
        Check("versions and times increase with each write while the clock stands still") { probe in
            var last = try await probe.insert("a").state
            for text in ["one", "two", "three"] {
                let outcome = try await probe.write(
                    probe.operation(.merge, "a", Sample.text(text))
                )
                guard let state = outcome.row?.state else { throw probe.failure("no row") }
                try probe.expect(state.version > last.version, "the version does not increase")
                try probe.expect(state.updatedAt > last.updatedAt, "the time does not increase")
                last = state
            }
        },
        Check("a merge changes the columns that it names, a replace all columns") { probe in
            try await probe.insert("a", Sample.values)
            _ = try await probe.write(probe.operation(.merge, "a", Sample.text("one")))
            var image = try await probe.store.image("a", view: nil, in: Sample.table)
            try probe.expect(image?.values[1], .integer(-3), "a column that is not merged")
            _ = try await probe.write(probe.operation(.replace, "a", Sample.text("two")))
            image = try await probe.store.image("a", view: nil, in: Sample.table)
            try probe.expect(image?.values[0], .text("two"), "a column")
            try probe.expect(image?.values[1], .integer(7), "a column without a new value")
        },
        Check("a delete leaves a tombstone, and an undelete restores the row") { probe in
            try await probe.insert("a", Sample.text("one"))
            let deleted = try await probe.write(probe.operation(.delete, "a"))
            try probe.expect(deleted.decision, .update(deleted: true), "a delete")
            let again = try await probe.write(probe.operation(.delete, "a"))
            try probe.expect(again.decision, .gone, "a second delete")
            try probe.expect(try await probe.ids(), [], "the list")
            var request = ListRequest()
            request.includesDeleted = true
            try probe.expect(try await probe.ids(request), ["a"], "the list with tombstones")
            let back = try await probe.write(probe.operation(.undelete, "a"))
            try probe.expect(back.decision, .update(deleted: false), "an undelete")
            try probe.expect(try await probe.ids(), ["a"], "the list after it")
        },
        Check("without soft delete, a row is removed, and no version is used again") { probe in
            var delete = probe.operation(.delete, "a")
            delete.softDelete = false
            let old = try await probe.insert("a", in: Sample.hard).state
            let deleted = try await probe.write(delete, in: Sample.hard)
            try probe.expect(deleted.decision, .remove, "a delete")
            let missing = try await probe.write(delete, in: Sample.hard)
            try probe.expect(missing.decision, .missing, "a second delete")
            let new = try await probe.insert("a", in: Sample.hard).state
            try probe.expect(new.version > old.version, "a version was used again")
        },
        Check("preconditions are compared with the current row") { probe in
            let first = try await probe.insert("a").state
            _ = try await probe.write(probe.operation(.merge, "a", Sample.text("one")))
            var stale = probe.operation(.merge, "a", Sample.text("two"))
            stale.conditions.ifMatch = .strong([RowVersion.text(first.version)])
            let rejected = try await probe.write(stale)
            try probe.expect(rejected.decision, .preconditionFailed, "an old version")
            try probe.expect(rejected.row != nil, "the row is not returned")
            stale.conflict = .serverWins
            let kept = try await probe.write(stale)
            try probe.expect(kept.decision, .keepStored, "an old version, server wins")
            stale.conflict = .clientWins
            let done = try await probe.write(stale)
            try probe.expect(done.decision, .update(deleted: false), "client wins")
        },
        Check("a write is rejected if its base version is not current") { probe in
            let first = try await probe.insert("a").state
            var write = probe.operation(.merge, "a", Sample.text("one"))
            write.basis = .version(first.version)
            let done = try await probe.write(write)
            try probe.expect(done.decision, .update(deleted: false), "the base version")
            let late = try await probe.write(write)
            try probe.expect(late.decision, .outdated, "another version")
            var insert = probe.operation(.insert, "b")
            insert.basis = .version(1)
            try probe.expect(try await probe.write(insert).decision, .outdated, "no row")
        },
        Check("columns that only one side changed are merged") { probe in
            let first = try await probe.insert("a", Sample.values, in: Sample.merging).state
            let theirs = probe.operation(.merge, "a", Sample.text("theirs"))
            _ = try await probe.write(theirs, in: Sample.merging)
            var mine = probe.operation(.merge, "a")
            mine.values[1] = .integer(8)
            mine.conflict = .merge
            mine.conditions.ifMatch = .strong([RowVersion.text(first.version)])
            let merged = try await probe.write(mine, in: Sample.merging)
            try probe.expect(merged.decision, .update(deleted: false), "another column")
            let text = try await probe.text("a", in: Sample.merging)
            try probe.expect(text, .text("theirs"), "the other side's column")
            mine.values[1] = nil
            mine.values[0] = .text("mine")
            let rejected = try await probe.write(mine, in: Sample.merging)
            try probe.expect(rejected.decision, .preconditionFailed, "the same column")
        },
        Check("a row outside the visibility filter is treated as missing") { probe in
            let view = QueryExpression(
                .compare(
                    .eq,
                    QueryExpression(.field("text")),
                    QueryExpression(.value(.string("mine")))
                )
            )
            try await probe.insert("mine", Sample.text("mine"))
            try await probe.insert("theirs", Sample.text("theirs"))
            for (id, isSeen) in [("mine", true), ("theirs", false), ("none", false)] {
                let row = try await probe.store.read(id, view: view, in: Sample.table)
                try probe.expect(row != nil, isSeen, "the read of '\(id)'")
                let image = try await probe.store.image(id, view: view, in: Sample.table)
                try probe.expect(image != nil, isSeen, "the image of '\(id)'")
                var write = probe.operation(.merge, id)
                write.view = view
                let decision = try await probe.write(write).decision
                try probe.expect(
                    decision,
                    isSeen ? .update(deleted: false) : .missing,
                    "a write to '\(id)'"
                )
            }
            var insert = probe.operation(.insert, "theirs", Sample.text("mine"))
            insert.view = view
            try probe.expect(try await probe.write(insert).decision, .taken, "a hidden id")
            var leave = probe.operation(.merge, "mine", Sample.text("other"))
            leave.view = view
            leave.staysInView = true
            let left = try await probe.write(leave)
            try probe.expect(left.rejection?.status, 403, "a write that hides the row")
            try probe.expect(try await probe.text("mine"), .text("mine"), "the row")
            var request = ListRequest()
            request.view = view
            try probe.expect(try await probe.ids(request), ["mine"], "the list")
        },
        Check("a successful write creates the missing columns and tables") { probe in
            var definition = Sample.definitions[0]
            definition.schema.columns.append(ColumnDefinition("extra", .string))
            let wider = Table(definition, existing: .part(Sample.table))
            try await probe.insert("a")
            let values = Sample.nothing + [.text("more")]
            let rejected = try await probe.write(probe.operation(.insert, "a", values), in: wider)
            try probe.expect(rejected.decision, .exists, "an existing id")
            try probe.expect(rejected.grown == nil, "a rejected write created a column")
            let done = try await probe.write(probe.operation(.insert, "b", values), in: wider)
            let names = done.grown?.schema.columns.map(\.name) ?? []
            try probe.expect(names.last, "extra", "the columns")
            let new = Table(TableDefinition("New", columns: Sample.columns), existing: .nothing)
            let first = try await probe.write(probe.operation(.insert, "a"), in: new)
            try probe.expect(first.grown?.name, "New", "the table")
        },
    ]
}
