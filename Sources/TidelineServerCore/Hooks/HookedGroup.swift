// HookedGroup: hooks around a group of writes.
//
//     before each -> transaction -> (conflict -> transaction) -> after each
//
// A hook decides by the row that it was shown: the write is bound to the version of that row, and the group restarts if
// the row has a different version by then.

import TidelineCore

/// The run of an atomic group of writes with the hooks of their tables.
struct HookedGroup: Sendable {
    private let service: TableService
    private let writes: [PreparedWrite]
    private let budget: AnswerBudget

    /// The number of times that a group restarts before it is rejected.
    private static let attemptsMax = 10

    init(_ service: TableService, _ writes: [PreparedWrite], _ budget: AnswerBudget) {
        self.service = service
        self.writes = writes
        self.budget = budget
    }

    /// Runs the hooks, and writes.
    func run() async -> GroupOutcome {
        do {
            // Hooks do not run for writes that the budget rejects.
            try budget.check()
        } catch {
            return .failed(at: 0, error)
        }
        for _ in 0..<Self.attemptsMax {
            if let outcome = await attempt() { return outcome }
        }
        let error = ServerError.busy(
            "The row changed too often while its hooks ran. Retry shortly."
        )
        return .failed(at: nil, error)
    }

    /// Returns whether the hooks have to run; a repeated write is answered from the ledger.
    private func isNew(_ write: PreparedWrite) async throws -> Bool {
        if write.write.isRepeatOnly { return false }
        guard let key = write.write.repeatKey else { return true }
        return try await service.store.isNew(key)
    }

    /// Runs one attempt; returns nil if a row has changed since a hook read it.
    private func attempt() async -> GroupOutcome? {
        let hooked = writes.map { HookedWrite(service, $0) }
        var operations: [WriteOperation] = []
        var news: [Bool] = []
        for (place, write) in writes.enumerated() {
            do {
                let isNew = try await isNew(write)
                news.append(isNew)
                operations.append(
                    isNew ? try await hooked[place].prepared(write.operation) : write.operation
                )
            } catch {
                return .failed(at: place, error)
            }
        }
        var resolved: Set<Int> = []
        while true {
            let group = writes.indices.map { place in
                var write = writes[place].write
                write.operation = operations[place]
                // No hook has run for a repeated write.
                write.isRepeatOnly = !news[place]
                return write
            }
            var batch = WriteBatch([WriteBatch.Group(group)], budget: budget)
            batch.caller = writes.first.map {
                CallerGate.name(of: $0.call.request, $0.call.user)
            }
            let outcomes = await service.writes.commit(batch)
            let outcome = outcomes.first ?? .notReached
            switch outcome {
            case .done(let outcomes):
                for (place, outcome) in outcomes.enumerated() {
                    await hooked[place].after(operations[place], outcome)
                }
                return outcome
            case .rejected(let place, let rejected):
                if rejected.decision == .outdated, writes[place].rejection == nil { return nil }
                // A handler is called once for each write.
                guard resolved.insert(place).inserted else { return outcome }
                do {
                    let next = try await hooked[place].resolveConflict(
                        of: operations[place],
                        rejected,
                        policy: writes[place].operation.conflict,
                        mayReplaceDelete: writes.count == 1
                    )
                    guard let next else { return outcome }
                    operations[place] = next
                } catch {
                    return .failed(at: place, error)
                }
            case .failed, .dependencyFailed, .notReached: return outcome
            }
        }
    }
}
