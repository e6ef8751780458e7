// WriteGroups: executes groups of prepared writes, in one call of the store or with hooks.

import TidelineCore

/// Prepared writes that are executed together: all or none.
struct PreparedGroup: Sendable {
    var writes: [PreparedWrite]
    /// The earlier groups that must succeed before this one is executed.
    var dependsOn: [Int]

    init(_ writes: [PreparedWrite], dependsOn: [Int] = []) {
        self.writes = writes
        self.dependsOn = dependsOn
    }

    var hasHooks: Bool { writes.contains { $0.table.hooks?.surroundWrites == true } }
}

extension WriteRoutes {
    /// Performs groups in order.
    ///
    /// Adjacent groups without hooks go to the store together, in one transaction. A group with hooks is
    /// executed alone, because its hooks read the row first and may run again.
    func perform(
        _ groups: [PreparedGroup],
        stopsAtFailure: Bool = false,
        budget: AnswerBudget = AnswerBudget(),
        isDryRun: Bool = false
    ) async -> [GroupOutcome] {
        var whole = WriteBatch(
            groups.map { WriteBatch.Group($0.writes.map(\.write), dependsOn: $0.dependsOn) },
            stopsAtFailure: stopsAtFailure,
            budget: budget
        )
        if let call = groups.first?.writes.first?.call {
            whole.caller = CallerGate.name(of: call.request, call.user)
        }
        whole.isDryRun = isDryRun
        // A dry run calls no hooks, because what they do cannot be undone.
        guard !isDryRun, groups.contains(where: \.hasHooks) else { return await commit(whole) }
        var progress = BatchProgress(whole)
        while let start = progress.next() {
            if groups[start].hasHooks {
                progress.ended(
                    await HookedGroup(service, groups[start].writes, progress.budget).run()
                )
                continue
            }
            let end = groups[start...].firstIndex(where: \.hasHooks) ?? groups.count
            for outcome in await commit(progress.part(upTo: end)) { progress.ended(outcome) }
        }
        return progress.outcomes
    }

    /// Executes the writes, and creates the tables and columns that they need.
    ///
    /// If there is too little memory for the first answer and no answer was built yet, the batch waits before
    /// any write is executed, because the result of an executed write has to be reported.
    func commit(_ batch: WriteBatch) async -> [GroupOutcome] {
        var outcomes: [GroupOutcome]
        do {
            outcomes = try await service.store.write(batch)
            while let reservation = batch.budget.reservation, reservation.isShort,
                reservation.mayWait,
                outcomes.allSatisfy(\.isLeft)
            {
                outcomes = []
                try await reservation.wait()
                outcomes = try await service.store.write(batch)
            }
        } catch {
            return batch.failed(error)
        }
        if batch.isDryRun { return outcomes }
        for case .done(let writes) in outcomes {
            for outcome in writes {
                if let grown = outcome.grown { service.catalog.put(grown) }
                if outcome.changesRow { service.metrics.wroteRow() }
            }
        }
        return outcomes
    }
}
