// AccountChanges: handles a changed account, and adopts operations that belong to no account.

import TidelineCore

/// The client's actions after a sign-in or sign-out, and for operations that belong to no account.
struct AccountChanges {
    let engine: SyncEngine

    /// Handles a change of the account, its token or its rights.
    ///
    /// Operations that the server rejected because of a missing right are sent again. If the store
    /// cannot be written now, the next push with a new token sends them.
    func accountChanged() async {
        _ = try? await engine.parkedOperations.release(hasNewRights: true)
        engine.accountHub.publish([""])
    }

    /// Adopts or discards the operations that were made while no account was signed in.
    ///
    /// - Returns: The number of operations that were adopted or discarded.
    func adopt(_ isWanted: Bool) async throws -> Int {
        try await engine.transaction { queue in
            guard let account = queue.account.id else { throw SyncError.notSignedIn() }
            let operations = try queue.reader.operations(of: nil)
            guard isWanted else {
                try queue.removal.discard(operations)
                return operations.count
            }
            for var operation in operations {
                operation.account = account
                try queue.put(operation)
                if operation.kind == .insert { try queue.membership.adoptRow(of: operation) }
            }
            return operations.count
        }
    }
}

extension SyncError {
    /// The error of a call that requires an account: none is signed in, and operations are pending.
    static func signedOut() -> SyncError {
        SyncError(
            .unauthorized,
            """
            No account is signed in, so nothing was sent. Sign in and push again. To also send \
            changes made while no account was signed in, call adopt(anonymousWork:).
            """
        )
    }

    fileprivate static func notSignedIn() -> SyncError {
        SyncError(
            .unauthorized,
            "No account is signed in. Sign in, then call adopt(anonymousWork:) again."
        )
    }

    /// The error of a push or pull during which the account changed.
    static func accountChanged() -> SyncError {
        SyncError(
            .otherAccount,
            """
            Another account signed in during the call, so nothing more was sent or stored for the \
            previous one. Sync again.
            """
        )
    }

    static func otherAccount(_ operation: QueuedOperation) -> SyncError {
        let origin =
            operation.account == nil
            ? "while no account was signed in. Call adopt(anonymousWork:) first."
            : "by another account. Sign in with that account, or call purge(account:force:) for it."
        return SyncError(
            .otherAccount,
            """
            Row '\(operation.itemID)' of table '\(operation.table)' has pending changes that were made \
            \(origin)
            """
        )
    }

    static func pendingOfAccount() -> SyncError {
        SyncError(
            .pendingOperations,
            """
            The account has pending changes. Push while it is signed in, or purge with 'force: true', \
            which discards them.
            """
        )
    }
}
