// TableStoreConformance+Repeats: checks for repeated writes and the idempotency ledger.

import TidelineCore
import TidelineServerCore

extension TableStoreConformance {
    static let repeatChecks = [
        Check("a repeat gets the outcome of the first write, and has no effect") { probe in
            let key = probe.key("one")
            let insert = probe.operation(.insert, "a", Sample.text("one"))
            try probe.expect(try await probe.store.isNew(key), "an unknown key is not new")
            let first = try await probe.write(insert, key: key)
            try probe.expect(try await probe.store.isNew(key), false, "new after the write")
            _ = try await probe.write(probe.operation(.merge, "a", Sample.text("two")))
            var other = insert
            other.id = "another"
            let again = try await probe.write(other, key: key)
            try probe.expect(again.decision, first.decision, "the decision")
            try probe.expect(again.row?.json == first.row?.json, "the row is different")
            try probe.expect(again.row?.state, first.row?.state, "the state")
            try probe.expect(again.repeatedID, "a", "the id")
            try probe.expect(again.changesRow, false, "a repeat counts as a change")
            try probe.expect(try await probe.ids(), ["a"], "the rows")
            try probe.expect(try await probe.text("a"), .text("two"), "the row")
        },
        Check("every kind of write can be repeated") { probe in
            try await probe.insert("a")
            let kinds: [WriteOperation.Kind] = [.merge, .replace, .delete, .undelete]
            for kind in kinds {
                let write = probe.operation(kind, "a", Sample.text("\(kind)"))
                let first = try await probe.write(write, key: probe.key("\(kind)"))
                try probe.expect(first.decision.isSuccess, "\(kind): \(first.decision)")
                let version = try await probe.version("a")
                let again = try await probe.write(write, key: probe.key("\(kind)"))
                try probe.expect(again.decision, first.decision, "\(kind)")
                try probe.expect(try await probe.version("a"), version, "\(kind): the version")
            }
            var delete = probe.operation(.delete, "a")
            delete.softDelete = false
            try await probe.insert("a", in: Sample.hard)
            for _ in 0..<2 {
                let outcome = try await probe.write(
                    delete,
                    in: Sample.hard,
                    key: probe.key("hard")
                )
                try probe.expect(outcome.decision, .remove, "a hard delete")
            }
        },
        Check("a key belongs to one caller and one request") { probe in
            let write = probe.operation(.insert, "a")
            _ = try await probe.write(write, key: probe.key("one", caller: "ann"))
            for caller in [nil, "bob"] {
                let outcome = try await probe.write(write, key: probe.key("one", caller: caller))
                try probe.expect(outcome.decision, .exists, "another caller")
            }
            let other = try await probe.write(
                write,
                key: probe.key("one", caller: "ann", digest: [9])
            )
            try probe.expect(other.rejection?.status, 400, "another request")
        },
        Check("two equal requests in one batch are executed once") { probe in
            let write = probe.write(.insert, "a", probe.key("one"))
            let groups = [WriteBatch.Group([write]), WriteBatch.Group([write])]
            let outcomes = try await probe.store.write(WriteBatch(groups))
            try probe.expect(outcomes.map(Probe.word), ["done", "done"], "the outcomes")
        },
        Check("concurrent equal requests are executed once") { probe in
            let write = probe.write(.insert, "a", probe.key("one"))
            let changes = try await withThrowingTaskGroup(of: Int.self) { tasks in
                for _ in 0..<20 {
                    tasks.addTask {
                        let batch = WriteBatch([WriteBatch.Group([write])])
                        guard case .done(let outcomes)? = try await probe.store.write(batch).first
                        else { throw probe.failure("a repeat is rejected") }
                        return outcomes.count(where: \.changesRow)
                    }
                }
                return try await tasks.reduce(0, +)
            }
            try probe.expect(changes, 1, "the changes")
        },
        Check("the ledger keeps no rejections and no writes that were rolled back") { probe in
            try await probe.insert("taken")
            let group = WriteBatch.Group([
                probe.write(.insert, "a", probe.key("a")),
                probe.write(.insert, "taken", probe.key("taken")),
            ])
            let undone = try await probe.store.write(WriteBatch([group])).map(Probe.word)
            try probe.expect(undone, ["rejected 1"], "the outcomes")
            try probe.expect(try await probe.store.isNew(probe.key("a")), "the write is kept")
            let first = try await probe.write(
                probe.operation(.insert, "a"),
                key: probe.key("a")
            )
            try probe.expect(first.changesRow, "the write is not executed again")
        },
        Check("an old key is rejected unless the ledger still has it") { probe in
            let write = probe.operation(.insert, "a")
            _ = try await probe.write(write, key: probe.key("kept"))
            probe.clock.move(days: 29)
            let young = try await probe.write(
                probe.operation(.insert, "b"),
                key: probe.key("young")
            )
            try probe.expect(young.changesRow, "a key of 29 days is rejected")
            probe.clock.move(days: 2)
            let known = try await probe.write(write, key: probe.key("kept"))
            try probe.expect(known.decision, .insert, "a key that the ledger still has")
            let old = try await probe.write(probe.operation(.insert, "c"), key: probe.key("old"))
            try probe.expect(old.rejection?.status, 412, "31 days")
            try probe.expect(old.row == nil, "a row is returned")
            try probe.expect(try await probe.ids(), ["a", "b"], "the rows")
        },
        Check("a write that may only be a repeat is not executed as a new one") { probe in
            var key = probe.key("early")
            key.firstSent += 86_400_000_000
            try probe.expect(try await probe.store.isNew(key), false, "a key of tomorrow")
            probe.clock.move(days: 1)
            var write = probe.write(.insert, "a", key)
            write.isRepeatOnly = true
            let batch = WriteBatch([WriteBatch.Group([write])])
            guard case .rejected(0, let outcome)? = try await probe.store.write(batch).first else {
                throw probe.failure("a write that may only be a repeat is executed")
            }
            try probe.expect(outcome.decision, .outdated, "the decision")
            try probe.expect(try await probe.ids(), [], "the rows")
            try probe.expect(try await probe.store.isNew(key), "the key is kept")
            write.isRepeatOnly = false
            let first = try await probe.write(write.operation, key: key)
            try probe.expect(first.changesRow, "the write is not executed")
            write.isRepeatOnly = true
            let again = try await probe.store.write(WriteBatch([WriteBatch.Group([write])]))
            try probe.expect(again.map(Probe.word), ["done"], "a repeat")
        },
    ]
}

extension TableStoreConformance.Probe {
    /// Returns an idempotency key that was first sent at the start of the check.
    func key(_ name: String, caller: String? = nil, digest: [UInt8] = [1, 2]) -> RepeatKey {
        RepeatKey(
            caller: caller,
            requestID: name,
            firstSent: TableStoreConformance.Clock.start,
            digest: digest
        )
    }

    func write(
        _ kind: WriteOperation.Kind,
        _ id: String,
        _ key: RepeatKey
    ) -> WriteBatch.Write {
        var write = WriteBatch.Write(
            operation(kind, id),
            in: TableStoreConformance.Sample.table
        )
        write.repeatKey = key
        return write
    }

    func version(_ id: String) async throws -> Int64? {
        try await store.image(id, view: nil, in: TableStoreConformance.Sample.table)?.version
    }
}
