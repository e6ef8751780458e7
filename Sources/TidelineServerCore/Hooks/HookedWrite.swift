// HookedWrite: the way of a write through the hooks of its table.
//
//     before -> transaction -> (conflict -> transaction) -> after
//
// What a hook was shown is what it decides about: a write is bound to the version that was shown,
// and begins anew when the row has another one by then.

import Synchronization
package import TidelineCore

struct HookedWrite: Sendable {
    let service: TableService
    let table: Table
    let hooks: TableHooks
    let user: User?
    let requestID: String

    /// How often a write begins anew before its caller is told to try later.
    private static let attemptsMax = 10

    /// Writes, and runs the hooks.
    func run(_ operation: WriteOperation) async throws -> WriteOutcome {
        for _ in 0..<Self.attemptsMax {
            let attempt = try await prepared(operation)
            let outcome = try await write(attempt)
            if outcome.decision == .outdated { continue }
            // After a write that succeeded the row has another version, too.
            guard let handler = hooks.conflict, !outcome.decision.changesRow,
                let theirs = outcome.row, attempt.isStale(against: theirs.state)
            else { return outcome }
            let policy = operation.conflict
            let settled = try await settle(attempt, outcome, theirs, policy, handler)
            if settled.decision != .outdated { return settled }
        }
        throw ServerError.busy("The row is written to too often for its hooks; try again shortly.")
    }

    // MARK: - Before

    private func prepared(_ operation: WriteOperation) async throws -> WriteOperation {
        var attempt = operation
        if hooks.conflict != nil { attempt.conflict = .reject }
        try await resolvePatch(&attempt)
        guard let before = hooks.beforeWrite, attempt.patch == nil else { return attempt }
        let reader = StoredRowReader(service, table, attempt)
        let old = table.row(of: attempt.values)
        var change = TableChange(
            operation: attempt.tableOperation,
            table: table.name,
            id: attempt.id,
            user: user,
            requestID: requestID,
            values: old,
            reader: reader
        )
        try await refusing { try await before(&change) }
        if attempt.kind != .delete && attempt.kind != .undelete {
            attempt.values = try table.values(of: change.values, from: old, attempt.values)
            if attempt.fillsDefaults { try table.checkAbsent(attempt.values) }
            service.setOwner(&attempt, user, table)
        }
        attempt.basis = attempt.basis ?? reader.basis
        return attempt
    }

    /// Carries a JSON Patch out on the row as it is, so that hooks see values.
    ///
    /// A patch that cannot be carried out stays, bound to the row: the transaction says why.
    private func resolvePatch(_ attempt: inout WriteOperation) async throws {
        guard let patch = attempt.patch else { return }
        let row = try await service.store.read(attempt.id, view: attempt.view, in: table)
        attempt.basis = row.map { .version($0.state.version) } ?? .absent
        guard let row, let values = try patch.apply(to: try table.storedValues(row)) else { return }
        attempt.values = values
        attempt.patch = nil
        service.setOwner(&attempt, user, table)
    }

    // MARK: - The transaction

    /// Writes, and runs what follows a commit.
    private func write(_ operation: WriteOperation) async throws -> WriteOutcome {
        let outcome = try await service.commit(operation, in: table)
        guard outcome.decision.changesRow, let after = hooks.afterWrite else { return outcome }
        do {
            let event = TableEvent(
                operation: operation.tableOperation,
                table: table.name,
                id: operation.id,
                user: user,
                requestID: requestID,
                row: try outcome.row.map(table.row)
            )
            try await after(event)
        } catch {
            service.settings.log.write(
                .error,
                "hook after a write failed",
                ["request": requestID, "table": table.name, "cause": "\(error)"]
            )
        }
        return outcome
    }

    // MARK: - Conflicts

    private func settle(
        _ attempt: WriteOperation,
        _ outcome: WriteOutcome,
        _ theirs: StoredRow,
        _ policy: ConflictRule,
        _ handler: @Sendable (TableConflict) async throws -> ConflictAnswer
    ) async throws -> WriteOutcome {
        let stored = try table.row(theirs)
        var mine = stored
        for (name, value) in table.row(of: attempt.fullValues(table)) { mine[name] = value }
        let conflict = TableConflict(
            table: table.name,
            id: attempt.id,
            user: user,
            requestID: requestID,
            operation: attempt.tableOperation,
            mine: mine,
            theirs: stored
        )
        let answer = try await refusing { try await handler(conflict) }
        var next = attempt
        next.basis = .version(theirs.state.version)
        switch answer {
        case .keep:
            let isDelete = attempt.tableOperation == .delete
            return WriteOutcome(isDelete ? .preconditionFailed : .keepStored, row: theirs)
        case .refuse:
            next.conflict = policy
            return policy == .reject ? outcome : try await write(next)
        case .mine:
            next.conflict = .clientWins
            return try await write(next)
        case .write(let row):
            next.conflict = .clientWins
            next.values = try table.values(of: row, from: mine, attempt.fullValues(table))
            service.setOwner(&next, user, table)
            guard attempt.tableOperation == .delete else {
                if next.kind == .replace {
                    next.kind = .merge
                    if !theirs.state.isDeleted { next.deleted = nil }
                    next.includesDeleted = true
                }
                return try await write(next)
            }
            return try await writeInPlaceOfDelete(next)
        }
    }

    /// The caller is told that the row is there still.
    private func writeInPlaceOfDelete(_ next: WriteOperation) async throws -> WriteOutcome {
        var next = next
        next.kind = .merge
        next.deleted = nil
        let outcome = try await write(next)
        guard outcome.decision.changesRow else { return outcome }
        return WriteOutcome(.preconditionFailed, row: outcome.row)
    }
}

extension TableService {
    /// Writes, through the hooks of the table where it has some.
    func outcome(
        _ operation: WriteOperation,
        _ call: TableCall,
        _ table: Table
    ) async throws -> WriteOutcome {
        if let hooks = table.hooks {
            var operation = operation
            operation.staysInView = hooks.rowFilter != nil
            return try await HookedWrite(
                service: self,
                table: table,
                hooks: hooks,
                user: call.user,
                requestID: call.request.id
            ).run(operation)
        }
        return try await commit(operation, in: table)
    }
}

/// Runs code of an app; its refusals become answers.
func refusing<Result>(_ body: () async throws -> Result) async throws -> Result {
    do {
        return try await body()
    } catch let refusal as Refusal {
        guard let answer = refusal.answer else { throw HookFault.status(refusal) }
        throw answer
    }
}

/// Reads the row of a write for a hook, and remembers what it showed.
final class StoredRowReader: Sendable {
    private let service: TableService
    private let table: Table
    private let id: String
    private let view: QueryExpression?
    private let shown = Mutex<(basis: WriteOperation.Basis, row: Row?)?>(nil)

    init(_ service: TableService, _ table: Table, _ operation: WriteOperation) {
        self.service = service
        self.table = table
        id = operation.id
        view = operation.view
    }

    /// The version that the hook was shown; nil when it did not look.
    var basis: WriteOperation.Basis? { shown.withLock { $0?.basis } }

    func row() async throws -> Row? {
        if let shown = shown.withLock({ $0 }) { return shown.row }
        // What the write will make is not there yet.
        var stored: StoredRow?
        if let table = table.storedForm {
            stored = try await service.store.read(id, view: view, in: table)
        }
        let row = try stored.map(table.row)
        return shown.withLock { shown in
            // Of two looks at the same time the first counts.
            if let shown { return shown.row }
            shown = (stored.map { .version($0.state.version) } ?? .absent, row)
            return row
        }
    }
}

extension WriteOperation {
    /// What hooks call it.
    var tableOperation: TableOperation {
        switch kind {
        case .insert: .insert
        case .delete: .delete
        case .undelete: .undelete
        case .merge: deleted == true ? .delete : deleted == false ? .undelete : .update
        case .replace: deleted == true ? .delete : .replace
        }
    }

    /// The values that it would leave in the row's columns; nil for those that it does not touch.
    package func fullValues(_ table: Table) -> [SQLValue?] {
        guard kind == .replace else { return values }
        return zip(table.columns, values).map { $1 ?? $0.storedDefault }
    }
}
