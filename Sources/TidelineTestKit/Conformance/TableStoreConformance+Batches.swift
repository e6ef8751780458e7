// TableStoreConformance+Batches: checks for batches and atomic groups.

import TidelineCore
import TidelineServerCore

extension TableStoreConformance {
    static let batchChecks = [
        Check("groups are executed in order, and each sees the earlier ones") { probe in
            let outcomes = try await probe.store.write(
                WriteBatch([
                    probe.group([probe.operation(.insert, "a", Sample.text("one"))]),
                    probe.group([probe.operation(.merge, "a", Sample.text("two"))]),
                    probe.group([probe.operation(.insert, "a")]),
                    probe.group([probe.operation(.delete, "b")]),
                ])
            )
            let found = outcomes.map(Probe.word)
            try probe.expect(found, ["done", "done", "rejected 0", "rejected 0"], "the outcomes")
            try probe.expect(try await probe.text("a"), .text("two"), "the row")
        },
        Check("a group is executed completely or not at all, and other groups continue") { probe in
            try await probe.insert("taken")
            let outcomes = try await probe.store.write(
                WriteBatch([
                    probe.group([probe.operation(.insert, "a")]),
                    probe.group([
                        probe.operation(.insert, "b"), probe.operation(.merge, "a"),
                        probe.operation(.insert, "taken"), probe.operation(.insert, "c"),
                    ]),
                    probe.group([
                        probe.operation(.insert, "d"), probe.operation(.insert, "e"),
                    ]),
                ])
            )
            try probe.expect(
                outcomes.map(Probe.word),
                ["done", "rejected 2", "done"],
                "the outcomes"
            )
            try probe.expect(try await probe.ids(), ["a", "d", "e", "taken"], "the rows")
        },
        Check("writes are not executed from the first without memory for its response") { probe in
            let text = String(repeating: "x", count: 2000)
            try await probe.insert("small")
            let memory = ResponseMemory(bytesMax: 100_000)
            let others = memory.count(1 << 30)
            var batch = WriteBatch(
                [
                    [probe.operation(.insert, "a")],
                    (0..<40).map { probe.operation(.insert, "b\($0)", Sample.text(text)) },
                    [probe.operation(.merge, "small", Sample.text("two"))],
                ]
                .map { probe.group($0) }
            )
            batch.budget = AnswerBudget(reservation: AnswerReservation(in: memory))
            let outcomes = try await probe.store.write(batch)
            try probe.expect(outcomes.count, 3, "the number of outcomes")
            guard case .done = outcomes[0], case .rejected(_, let group) = outcomes[1],
                case .rejected(0, let last) = outcomes[2]
            else { throw Failure(check: probe.check, detail: "the outcomes are different") }
            for outcome in [group, last] {
                let code = outcome.rejection?.code
                try probe.expect(code, ServerError.batchMemoryFull.code, "the code")
            }
            try probe.expect(try await probe.ids(), ["a", "small"], "the rows")
            others.resize(to: 0)
            batch.groups.removeFirst()
            batch.budget = AnswerBudget(reservation: AnswerReservation(in: memory))
            let done = try await probe.store.write(batch).map(Probe.word)
            try probe.expect(done, ["done", "done"], "the outcomes with enough memory")
        },
        Check("a batch may stop at its first failure") { probe in
            try await probe.insert("taken")
            var batch = WriteBatch(
                ["a", "taken", "b"].map { probe.group([probe.operation(.insert, $0)]) }
            )
            batch.stopsAtFailure = true
            let stopped = try await probe.store.write(batch).map(Probe.word)
            try probe.expect(stopped, ["done", "rejected 0", "not reached"], "the outcomes")
            try probe.expect(try await probe.ids(), ["a", "taken"], "the rows")
        },
        Check("a group that depends on a failed group is not executed") { probe in
            try await probe.insert("taken")
            let outcomes = try await probe.store.write(
                WriteBatch([
                    probe.group([probe.operation(.insert, "a")]),
                    probe.group([probe.operation(.insert, "taken")], dependsOn: [0]),
                    probe.group([probe.operation(.insert, "b")], dependsOn: [1]),
                    probe.group([probe.operation(.insert, "c")], dependsOn: [2]),
                    probe.group([probe.operation(.insert, "d")], dependsOn: [0]),
                ])
            )
            try probe.expect(
                outcomes.map(Probe.word),
                ["done", "rejected 0", "depends", "depends", "done"],
                "the outcomes"
            )
            try probe.expect(try await probe.ids(), ["a", "d", "taken"], "the rows")
        },
        Check("the rejection of a row has no effect on other groups") { probe in
            let large = Sample.text(String(repeating: "x", count: 2 << 20))
            let outcomes = try await probe.store.write(
                WriteBatch([
                    probe.group([probe.operation(.insert, "a")]),
                    probe.group([probe.operation(.insert, "b", large)]),
                    probe.group([probe.operation(.insert, "c")]),
                ])
            )
            try probe.expect(
                outcomes.map(Probe.word),
                ["done", "rejected 0", "done"],
                "the outcomes"
            )
            guard case .rejected(_, let outcome) = outcomes[1] else { return }
            try probe.expect(outcome.rejection?.status, 413, "the status")
            try probe.expect(try await probe.ids(), ["a", "c"], "the rows")
        },
        Check("a table that a group creates is rolled back with the group") { probe in
            let new = Table(TableDefinition("New", columns: Sample.columns), existing: .nothing)
            try await probe.insert("taken")
            let group = WriteBatch.Group([
                WriteBatch.Write(probe.operation(.insert, "a"), in: new),
                WriteBatch.Write(probe.operation(.insert, "taken"), in: Sample.table),
            ])
            let undone = try await probe.store.write(WriteBatch([group])).map(Probe.word)
            try probe.expect(undone, ["rejected 1"], "the outcomes")
            let again = try await probe.write(probe.operation(.insert, "a"), in: new)
            try probe.expect(again.grown?.name, "New", "the table")
        },
        Check("concurrent batches of many callers are each executed once") { probe in
            try await withThrowingTaskGroup(of: Void.self) { tasks in
                for caller in 0..<20 {
                    tasks.addTask {
                        let groups = (0..<5).map { number in
                            probe.group([probe.operation(.insert, "\(caller)-\(number)")])
                        }
                        for outcome in try await probe.store.write(WriteBatch(groups)) {
                            try probe.expect(Probe.word(outcome), "done", "an insert")
                        }
                    }
                }
                try await tasks.waitForAll()
            }
            var request = ListRequest()
            request.rowsMax = 1000
            try probe.expect(try await probe.ids(request).count, 100, "the rows")
        },
    ]
}

extension TableStoreConformance.Probe {
    func group(_ operations: [WriteOperation], dependsOn: [Int] = []) -> WriteBatch.Group {
        WriteBatch.Group(
            operations.map { WriteBatch.Write($0, in: TableStoreConformance.Sample.table) },
            dependsOn: dependsOn
        )
    }

    static func word(_ outcome: GroupOutcome) -> String {
        switch outcome {
        case .done: "done"
        case .rejected(let place, _): "rejected \(place)"
        case .failed: "failed"
        case .dependencyFailed: "depends"
        case .notReached: "not reached"
        }
    }
}
