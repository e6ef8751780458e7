// WriteGroups: performs groups of prepared writes: in one call of the store, or through hooks.

import TidelineCore

/// Prepared writes of which all are done or none.
struct PreparedGroup: Sendable {
    var writes: [PreparedWrite]
    /// Earlier groups that must succeed before this one is done.
    var dependsOn: [Int]

    init(_ writes: [PreparedWrite], dependsOn: [Int] = []) {
        self.writes = writes
        self.dependsOn = dependsOn
    }

    var hasHooks: Bool { writes.contains { $0.table.hooks?.surroundWrites == true } }
}

extension TableService {
    /// Performs groups in their order.
    ///
    /// Adjacent groups without hooks go to the store together, in one transaction. A group with hooks goes
    /// alone, because its hooks read the row before and may run again.
    func perform(
        _ groups: [PreparedGroup],
        stopsAtFailure: Bool = false,
        budget: AnswerBudget = AnswerBudget()
    ) async -> [GroupOutcome] {
        var whole = WriteBatch(
            groups.map { WriteBatch.Group($0.writes.map(\.write), dependsOn: $0.dependsOn) },
            stopsAtFailure: stopsAtFailure,
            budget: budget
        )
        if let call = groups.first?.writes.first?.call {
            whole.caller = Self.callerName(call.request, call.user)
        }
        guard groups.contains(where: \.hasHooks) else { return await commit(whole) }
        var progress = BatchProgress(whole)
        while let start = progress.next() {
            if groups[start].hasHooks {
                progress.ended(await HookedGroup(self, groups[start].writes, progress.budget).run())
                continue
            }
            let end = groups[start...].firstIndex(where: \.hasHooks) ?? groups.count
            for outcome in await commit(progress.part(upTo: end)) { progress.ended(outcome) }
        }
        return progress.outcomes
    }

    /// Writes, and creates the tables and columns that are missing for it.
    ///
    /// If there is too little memory for the first answer and none was built before, the batch waits before
    /// any write, because the result of a completed write has to be reported.
    func commit(_ batch: WriteBatch) async -> [GroupOutcome] {
        var outcomes: [GroupOutcome]
        do {
            outcomes = try await store.write(batch)
            while let room = batch.budget.room, room.isLacking, room.mayWait,
                outcomes.allSatisfy(\.isLeft)
            {
                outcomes = []
                try await room.wait()
                outcomes = try await store.write(batch)
            }
        } catch {
            return batch.groups.map { _ in .failed(at: nil, error) }
        }
        for case .done(let writes) in outcomes {
            for outcome in writes {
                if let grown = outcome.grown { catalog.put(grown) }
                if outcome.changesRow { metrics.wroteRow() }
            }
        }
        return outcomes
    }
}
