// ParkedOperations: releases operations that were rejected temporarily, after the server's schema,
// a right or the app has changed.

import Foundation
import Synchronization
import TidelineCore

/// The operations that the server rejected but may accept later.
struct ParkedOperations {
    let engine: SyncEngine

    /// Returns the current conditions for a temporary rejection.
    func conditions() async -> ParkedConditions {
        let service = try? engine.remote.get()
        return ParkedConditions(
            schema: service?.schema.name,
            rights: await engine.tokens?.rights,
            app: service?.appVersion ?? AppVersion.text(nil)
        )
    }

    /// Releases parked operations that the server may accept now, because its tables, the caller's
    /// rights or the app have changed since the rejection.
    ///
    /// - Parameter hasNewRights: Whether the app reported that the caller's rights have changed.
    /// - Returns: The number of released operations.
    /// - Throws: ``SyncError`` if the store fails.
    @discardableResult
    func release(hasNewRights: Bool = false) async throws -> Int {
        guard let endpoint = try? engine.remote.get().endpoint.key,
            try await engine.read({ try $0.errors.hasOneThatMayPass() })
        else { return 0 }
        let (conditions, now) = (await conditions(), engine.environment.now())
        return try await engine.transaction { queue in
            let errors = try queue.reader.errors.thatMayPass()
            let isDue = try queue.serverFacts.isParkedDue(
                endpoint,
                at: now,
                isWanted: errors.contains { $0.conditions?.haveNoSchema(now: conditions) ?? false }
            )
            var count = 0
            for error in errors
            where error.mayPass(now: conditions, isDue: isDue, hasNewRights: hasNewRights) {
                guard let operation = try queue.reader.operation(error.operationID) else {
                    continue
                }
                // Another operation of the group may already have released it.
                if operation.state == .parked { try queue.retry(operation) }
                try queue.removeErrors(of: operation.id)
                count += 1
            }
            return count
        }
    }

    /// Releases operations that were rejected because of a missing parent if the queue now inserts
    /// that parent.
    ///
    /// The app may have inserted the parent, or resent it after a restore.
    func releaseChildren() async throws {
        guard try await engine.read({ try !$0.errors.childrenWithParents().isEmpty }) else {
            return
        }
        try await engine.transaction { queue in
            for operation in try queue.reader.errors.childrenWithParents() {
                // Another operation of the group may already have released it.
                if let parked = try queue.reader.operation(operation.id), parked.state == .parked {
                    try queue.retry(parked)
                }
                try queue.removeErrors(of: operation.id)
            }
        }
    }

    /// Counts a failed push for each operation that the server failed to process although it
    /// processed others.
    ///
    /// Each operation is counted once per push, and is parked when its count reaches the limit.
    func countFailedPush() async throws {
        let failed = engine.pushMemory.failing.withLock { failing in
            defer { failing = [] }
            return failing
        }
        guard !failed.isEmpty else { return }
        let most = engine.limits.failedPushesMax
        let texts = failed.map {
            SettlementRules(engine: engine).parkText($0.operation, nil, $0.answer)
        }
        let parked = try await engine.transaction { queue in
            var parked: [QueuedOperation] = []
            for (failure, text) in zip(failed, texts) {
                let sent = failure.operation
                let operations = try queue.reader.operations(sent.table, sent.itemID)
                guard var operation = operations.first, operation.id == sent.id,
                    operation.damage == nil, operation.frozen?.requestID == sent.frozen?.requestID
                else { continue }
                operation.failedPushes += 1
                guard operation.failedPushes >= most else {
                    try queue.put(operation)
                    continue
                }
                let later = operations.dropFirst().first
                let result = try Settlement(queue: queue).park(operation, later, nil, text)
                if result == .parked { parked.append(operation) }
            }
            return parked
        }
        for operation in parked { engine.events.send(.parked, of: operation) }
    }

    /// Requests one row if the queue has only rejected operations.
    ///
    /// The push sends no other request that would show whether the server's tables have changed.
    func learnSchema() async {
        // If the store or the server cannot be reached, the push continues without this response.
        guard let service = try? engine.remote.get(), service.busyTime == .zero,
            await engine.account() != .signedOut,
            let operation = try? await engine.read({ try $0.errors.firstRejectedBySchema() }),
            (try? await engine.hasSendable()) == false
        else { return }
        _ = try? await service.followUp(.row, operation, engine.catalog.schema(operation.table))
    }
}
