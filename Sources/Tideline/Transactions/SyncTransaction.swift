// SyncTransaction: changes of several tables in one transaction on this device.

import TidelineCore
import TidelineSQLite

/// A transaction over the tables of a client, valid while its closure runs.
///
/// ``SyncContext/transaction(_:)`` creates it. After the transaction ends, its tables throw
/// ``SyncError`` with code `transactionEnded`.
public final class SyncTransaction {
    let engine: SyncEngine
    /// The queue and the store that the transaction uses until it ends.
    private var current: QueueTransaction?
    /// The error of the store; if set, the transaction changes nothing.
    private(set) var failure: (any Error)?

    init(engine: SyncEngine, _ queue: QueueTransaction) {
        self.engine = engine
        current = queue
    }

    /// Returns the table of a record type.
    ///
    /// - Throws: ``SyncError`` with code `unknownTable` if the type was not among the tables of the
    ///   store.
    public func table<Record: SyncRecord>(_ type: Record.Type) throws -> TransactionTable<Record> {
        let schema = try engine.schema(Record.tableName)
        let coder = try RecordCoder.model(for: type, declared: schema)
        return TransactionTable(transaction: self, coder: coder)
    }

    /// Returns a table by name, with untyped rows.
    ///
    /// - Throws: ``SyncError`` with code `unknownTable`.
    public func table(named name: String) throws -> TransactionTable<Row> {
        TransactionTable(transaction: self, coder: .untyped(table: try engine.schema(name)))
    }

    /// A reader of all tables, which sees the changes that the transaction has made so far.
    ///
    /// Pass it to functions that take a ``SyncReader``.
    public var reader: SyncReader { SyncReader(self) }

    /// Whether the task that waits for the transaction was cancelled.
    var stop: QueryStop? { current?.watch?.stop }

    /// Runs `body` on the store.
    ///
    /// A failure of the store ends the transaction, even if the app's closure catches the error, because a change may
    /// be incomplete, and SQLite may have rolled back earlier changes.
    func working<Result>(_ body: (QueueTransaction) throws -> Result) throws -> Result {
        let queue = try queue()
        do {
            return try body(queue)
        } catch let error as SyncError where error.code != .storeFailure {
            throw error
        } catch {
            failure = error
            throw error
        }
    }

    /// - Throws: ``SyncError``, including if the task that waits for the transaction was cancelled, and the error of
    ///   the store.
    func queue() throws -> QueueTransaction {
        if let current {
            try current.watch?.check()
            if let failure { throw failure }
            return current
        }
        throw SyncError(
            .transactionEnded,
            "The transaction has ended. Use its tables inside its closure only."
        )
    }

    func end() { current = nil }
}

/// A runner of the app's transactions.
struct TransactionRunner {
    let engine: SyncEngine

    /// Runs a closure of the app in one transaction: either all of its changes are stored, or none.
    ///
    /// If `isGroup`, its changes are also pushed as one atomic group.
    func run<Result: Sendable>(
        isGroup: Bool = false,
        of body: @escaping @Sendable (SyncTransaction) throws -> Result
    ) async throws -> Result {
        try await TransactionWatch.during("transaction", telling: engine.events) { watch in
            try await run(isGroup, watch, of: body)
        }
    }

    private func run<Result: Sendable>(
        _ isGroup: Bool,
        _ watch: TransactionWatch,
        of body: @escaping @Sendable (SyncTransaction) throws -> Result
    ) async throws -> Result {
        let group = isGroup ? engine.environment.makeID() : nil
        do {
            return try await engine.transaction { queue in
                try watch.begin()
                var queue = queue
                queue.group = group
                queue.size = GroupSize()
                queue.watch = watch
                let transaction = SyncTransaction(engine: engine, queue)
                defer { transaction.end() }
                let result: Result
                do {
                    result = try body(transaction)
                } catch let error as SyncError {
                    throw transaction.failure ?? error
                } catch {
                    throw transaction.failure ?? AppError(error: error)
                }
                if let failure = transaction.failure { throw failure }
                if let group { try self.checkSize(of: group, queue) }
                try watch.check()
                return result
            }
        } catch let error as SyncError {
            throw AppError.unwrapped(error)
        }
    }

    /// Rejects a transaction that does not fit into one batch of the server.
    ///
    /// If this transaction edits rows of an earlier, rejected transaction, all operations of the earlier transaction
    /// join its group. If that makes the group too large, the operations that this transaction did not edit return to
    /// their own group, so that a local change does not fail because of other rows in the queue. An operation that the
    /// transaction edited counts with all of its values.
    private func checkSize(of group: String, _ queue: QueueTransaction) throws {
        do {
            try checkBatch(of: group, queue)
        } catch let error as SyncError where error.code == .transactionTooLarge {
            guard try queue.separateEarlier(from: group) else { throw error }
            try checkBatch(of: group, queue)
        }
    }

    private func checkBatch(of group: String, _ queue: QueueTransaction) throws {
        let rows = try queue.reader.count(group: group)
        guard rows <= engine.limits.transactionRowsMax else {
            throw SyncError.transactionTooLarge(rows, max: engine.limits.transactionRowsMax)
        }
        let max = engine.limits.transactionBytesMax
        if queue.size?.certainlyFits(max) ?? true { return }
        let root = (try? engine.remote.get().endpoint.rootPath) ?? ""
        let bytes = try GroupSize.bytes(of: group, root: root, queue, engine.environment)
        guard bytes <= max else { throw SyncError.transactionTooLarge(bytes: bytes, max: max) }
    }
}

extension SyncContext {
    /// Changes several rows and tables in one transaction: all changes are stored, or none.
    ///
    /// The closure runs off the caller's actor, and blocks all other writes to the store, so keep it short. If it
    /// throws, nothing is changed, and the error is rethrown. The closure may run twice, so it must only read and
    /// change tables of the transaction.
    ///
    /// If the server supports batches, the changes are atomic on the server, too: no reader ever sees half of them. If
    /// the server rejects one of the operations, it applies none, and all of them are parked, each with its
    /// ``TableOperationError``. A retry or an edit of one of the rows sends all of them again; a discarded operation is
    /// removed from the transaction. If a transaction changes a row that an earlier, unsent transaction changed, it is
    /// sent after the earlier transaction. If the earlier transaction is rejected, the later transaction waits for it.
    ///
    /// A server without batches, such as an original Azure server, receives the operations one by one, in order, and
    /// may reject one operation and accept the others.
    ///
    /// ```swift
    /// try await client.syncContext.transaction { transaction in
    ///     let lists = try transaction.table(TodoList.self)
    ///     let items = try transaction.table(TodoItem.self)
    ///     let list = try lists.insert(TodoList(name: "Shopping"))
    ///     try items.insert([TodoItem(text: "Milk", list: list.id)])
    /// }
    /// ```
    ///
    /// - Returns: The result of the closure.
    /// - Throws: The errors of the closure, and ``SyncError`` with code `storeNotInitialized`,
    ///   `storeFailure`, `cancelled` if the task is cancelled before the transaction is done, or
    ///   `transactionTooLarge` if the transaction alone has more than
    ///   ``SyncLimits/transactionRowsMax`` operations or ``SyncLimits/transactionBytesMax`` bytes.
    ///   An unsent operation that the transaction changes counts with all of its values. On an error, nothing is
    ///   changed. A transaction never fails because of other rows in the queue.
    @discardableResult
    @concurrent
    public nonisolated func transaction<Result: Sendable>(
        _ body: @escaping @Sendable (SyncTransaction) throws -> Result
    ) async throws -> Result {
        try await engine().transactions.run(isGroup: true, of: body)
    }
}
