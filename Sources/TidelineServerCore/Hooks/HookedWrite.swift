// HookedWrite: hooks around one write.

import Synchronization
package import TidelineCore

/// The run of the hooks around one write: before it, after it, and for its conflict.
struct HookedWrite: Sendable {
    let service: TableService
    let table: Table
    let hooks: TableHooks
    let user: User?
    let requestID: String

    init(_ service: TableService, _ write: PreparedWrite) {
        self.service = service
        table = write.table
        hooks = write.table.hooks ?? TableHooks()
        user = write.call.user
        requestID = write.call.request.id
    }

    // MARK: - Before

    /// Returns the write as changed by the hook that runs before it.
    func prepared(_ operation: WriteOperation) async throws -> WriteOperation {
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
        try await rejecting { try await before(&change) }
        if attempt.kind != .delete && attempt.kind != .undelete {
            attempt.values = try table.values(of: change.values, from: old, attempt.values)
            if attempt.fillsDefaults { try table.checkAbsent(attempt.values) }
            service.access.setOwner(&attempt, user, table)
        }
        attempt.basis = attempt.basis ?? reader.basis
        return attempt
    }

    /// Applies a JSON Patch to the current row, so that hooks see values.
    ///
    /// A patch that cannot be applied is kept with the row's version; the transaction reports the error.
    private func resolvePatch(_ attempt: inout WriteOperation) async throws {
        guard let patch = attempt.patch else { return }
        let image = try await service.store.image(attempt.id, view: attempt.view, in: table)
        attempt.basis = image.map { .version($0.version) } ?? .absent
        guard let image else { return }
        let expressions = table.definition.databaseDefaults
        let places = patch.resets.filter { expressions[table.columns[$0].name] != nil }
        if !places.isEmpty {
            // If the patch is kept, the transaction uses the same values.
            attempt.databaseDefaults = try await service.store.databaseDefaults(
                of: places.sorted(),
                in: table
            )
        }
        let defaults = attempt.databaseDefaults
        guard let values = try? patch.apply(to: image.allValues, defaults: defaults) else { return }
        attempt.values = values
        attempt.patch = nil
        service.access.setOwner(&attempt, user, table)
    }

    // MARK: - After

    /// Runs the hook after a write was committed; its errors are only logged.
    func after(_ operation: WriteOperation, _ outcome: WriteOutcome) async {
        guard outcome.changesRow, let after = hooks.afterWrite else { return }
        do {
            let event = TableEvent(
                operation: operation.tableOperation,
                table: table.name,
                id: operation.id,
                user: user,
                requestID: requestID,
                row: try (outcome.hiddenRow ?? outcome.row).map(table.row)
            )
            try await after(event)
        } catch {
            service.settings.log.write(
                .error,
                "a hook failed after a write",
                ["request": requestID, "table": table.name, "cause": "\(error)"]
            )
        }
    }

    // MARK: - Conflicts

    /// Asks the handler for a write that replaces a rejected one.
    ///
    /// - Returns: Nil if the rejection is final.
    func resolveConflict(
        of attempt: WriteOperation,
        _ outcome: WriteOutcome,
        policy: ConflictRule,
        mayReplaceDelete: Bool
    ) async throws -> WriteOperation? {
        // After a write that succeeded, the row also has a different version.
        guard let handler = hooks.conflict, let server = outcome.hiddenRow ?? outcome.row,
            attempt.isStale(against: server.state)
        else { return nil }
        let stored = try table.row(server)
        var client = stored
        for (name, value) in table.row(of: attempt.fullValues(table)) { client[name] = value }
        let conflict = TableConflict(
            table: table.name,
            id: attempt.id,
            user: user,
            requestID: requestID,
            operation: attempt.tableOperation,
            client: client,
            server: stored
        )
        let answer = try await rejecting { try await handler(conflict) }
        var next = attempt
        next.basis = .version(server.state.version)
        switch answer {
        case .server:
            next.conflict = .serverWins
        case .policy:
            guard policy != .reject else { return nil }
            next.conflict = policy
        case .client:
            next.conflict = .clientWins
        case .write(let row):
            next.conflict = .clientWins
            // A patch whose tests failed was not applied, and must not be applied now.
            next.patch = nil
            next.values = try table.values(of: row, from: client, attempt.fullValues(table))
            service.access.setOwner(&next, user, table)
            guard attempt.tableOperation != .delete else {
                guard mayReplaceDelete else { return nil }
                next.kind = .merge
                next.deleted = nil
                next.isInPlaceOfDelete = true
                break
            }
            if next.kind == .replace {
                next.kind = .merge
                if !server.state.isDeleted { next.deleted = nil }
                next.includesDeleted = true
            }
        }
        return next
    }
}

/// Runs an app's code, and converts its rejections to responses.
func rejecting<Result>(_ body: () async throws -> Result) async throws -> Result {
    do {
        return try await body()
    } catch let rejection as Rejection {
        guard let answer = rejection.answer else { throw HookFault.status(rejection) }
        throw answer
    }
}

/// A reader of a write's row for a hook, which records the version that was read.
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

    /// The version that the hook read; nil if it read none.
    var basis: WriteOperation.Basis? { shown.withLock { $0?.basis } }

    func row() async throws -> Row? {
        if let shown = shown.withLock({ $0 }) { return shown.row }
        // The columns that the write will add do not exist yet.
        var stored: StoredRow?
        if let table = table.storedForm {
            stored = try await service.store.read(id, view: view, in: table)
        }
        let row = try stored.map(table.row)
        return shown.withLock { shown in
            // If two reads run at the same time, the first one counts.
            if let shown { return shown.row }
            shown = (stored.map { .version($0.state.version) } ?? .absent, row)
            return row
        }
    }
}

extension WriteOperation {
    /// The operation as hooks see it.
    var tableOperation: TableOperation {
        switch kind {
        case .insert: .insert
        case .delete: .delete
        case .undelete: .undelete
        case .merge: deleted == true ? .delete : deleted == false ? .undelete : .update
        case .replace: deleted == true ? .delete : .replace
        }
    }

    /// Returns the values of the row's columns after the write; nil for columns that it does not set.
    ///
    /// The result has one element for each column, even if the write has no values.
    package func fullValues(_ table: Table) -> [SQLValue?] {
        guard kind == .replace else {
            return table.columns.indices.map { values.indices.contains($0) ? values[$0] : nil }
        }
        return zip(table.columns, values).map { $1 ?? $0.storedDefault }
    }
}
