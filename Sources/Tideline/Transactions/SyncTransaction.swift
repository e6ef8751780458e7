// SyncTransaction: changes of several tables that are one on this device.

import TidelineCore

/// A transaction over the tables of a client, while its closure runs.
///
/// ``SyncContext/transaction(_:)`` makes it. Used after its end, its tables throw ``SyncError`` with
/// code `transactionEnded`.
public final class SyncTransaction {
    /// What a transaction works on, until it ends.
    struct Work {
        let queue: QueueTransaction
        let seen: SeenNotes
    }

    /// Records that went out to the app, and count as handed out once the transaction is committed.
    struct HandedOut: Sendable {
        var table: String
        var rows: [(row: Row, state: RowState)]
    }

    let engine: SyncEngine
    private var current: Work?
    private(set) var handedOut: [HandedOut] = []
    /// What the store failed with; nothing of the transaction is done then.
    private(set) var failure: (any Error)?

    init(engine: SyncEngine, _ work: Work) {
        self.engine = engine
        current = work
    }

    /// The table of a record type.
    ///
    /// - Throws: ``SyncError`` with code `unknownTable` when the type was not among the tables of the
    ///   store.
    public func table<Record: SyncRecord>(_ type: Record.Type) throws -> TransactionTable<Record> {
        let schema = try engine.schema(Record.tableName)
        let coder = try RecordCoder.model(for: type, declared: schema)
        return TransactionTable(transaction: self, coder: coder)
    }

    /// A table by name, with untyped rows.
    ///
    /// - Throws: ``SyncError`` with code `unknownTable`.
    public func table(named name: String) throws -> TransactionTable<Row> {
        TransactionTable(transaction: self, coder: .untyped(table: try engine.schema(name)))
    }

    /// Works on the store.
    ///
    /// A store that fails ends the transaction, whatever the closure of the app does with the error: half
    /// of a change may be done, and SQLite may have undone what was before it.
    func working<Result>(_ body: (Work) throws -> Result) throws -> Result {
        let work = try work()
        do {
            return try body(work)
        } catch let error as SyncError where error.code != .storeFailure {
            throw error
        } catch {
            failure = error
            throw error
        }
    }

    /// - Throws: ``SyncError``, also where nobody waits for the transaction any more, and what the store
    ///   failed with.
    func work() throws -> Work {
        if let current {
            try current.queue.watch?.check()
            if let failure { throw failure }
            return current
        }
        throw SyncError(
            .transactionEnded,
            "The transaction has ended. Use its tables inside its closure only."
        )
    }

    func end() { current = nil }

    func remember(_ rows: [(row: Row, state: RowState)], table: String) {
        if !rows.isEmpty { handedOut.append(HandedOut(table: table, rows: rows)) }
    }
}

extension SyncEngine {
    /// The table that the app calls so.
    func schema(_ name: String) throws -> TableSchema {
        guard let schema = catalog.schema(name) else {
            throw SyncError.unknownTable(name, known: Array(catalog.schemas.keys))
        }
        return schema
    }

    /// An error of the app's own, on its way through the store.
    private struct Thrown: Error {
        let error: any Error
    }

    /// Runs a closure of the app in one transaction: all of what it does, or nothing.
    ///
    /// `isGroup`: what it does is pushed as one, too.
    func transaction<Result: Sendable>(
        isGroup: Bool = false,
        of body: @escaping @Sendable (SyncTransaction) throws -> Result
    ) async throws -> Result {
        try await TransactionWatch.during("transaction", telling: events) { watch in
            try await transaction(isGroup, watch, of: body)
        }
    }

    private func transaction<Result: Sendable>(
        _ isGroup: Bool,
        _ watch: TransactionWatch,
        of body: @escaping @Sendable (SyncTransaction) throws -> Result
    ) async throws -> Result {
        let group = isGroup ? environment.makeID() : nil
        do {
            let (result, handedOut) = try await noting { queue, seen in
                try watch.begin()
                var queue = queue
                queue.group = group
                queue.size = GroupSize()
                queue.watch = watch
                let work = SyncTransaction.Work(queue: queue, seen: seen)
                let transaction = SyncTransaction(engine: self, work)
                defer { transaction.end() }
                let result: Result
                do {
                    result = try body(transaction)
                } catch let error as SyncError {
                    throw transaction.failure ?? error
                } catch {
                    throw transaction.failure ?? Thrown(error: error)
                }
                if let failure = transaction.failure { throw failure }
                if let group { try self.checkSize(of: group, queue) }
                try watch.check()
                return (result, transaction.handedOut)
            }
            for part in handedOut { seen.handedOut(part.rows, table: part.table) }
            return result
        } catch let error as SyncError {
            throw (error.cause as? Thrown)?.error ?? error
        }
    }

    /// Rejects a transaction that no batch of the server can carry.
    ///
    /// Rejected operations of an earlier transaction that this one edits join its group. If the group
    /// gets too large with them, they are a group of their own again: a local change does not fail
    /// because of the state of the queue.
    private func checkSize(of group: String, _ queue: QueueTransaction) throws {
        do {
            try checkBatch(of: group, queue)
        } catch let error as SyncError where error.code == .transactionTooLarge {
            guard let size = queue.size, size.hasEarlier else { throw error }
            let first = size.firstAppended ?? .max
            let own = environment.makeID()
            for var member in try queue.reader.members(of: group) where member.id < first {
                member.group = own
                try queue.put(member)
            }
            try checkBatch(of: group, queue)
        }
    }

    private func checkBatch(of group: String, _ queue: QueueTransaction) throws {
        let rows = try queue.reader.count(group: group)
        guard rows <= limits.transactionRowsMax else {
            throw SyncError.transactionTooLarge(rows, max: limits.transactionRowsMax)
        }
        let max = limits.transactionBytesMax
        if queue.size?.certainlyFits(max) ?? true { return }
        let root = (try? remote.get().endpoint.rootPath) ?? ""
        let bytes = try queue.bytes(of: group, root: root, environment)
        guard bytes <= max else { throw SyncError.transactionTooLarge(bytes: bytes, max: max) }
    }
}

extension SyncContext {
    /// Changes several rows and tables in one transaction: all of it happens, or nothing.
    ///
    /// The closure runs beside the caller while nobody else writes to the store: it should be short.
    /// When it throws, everything is as it was, and the error is passed on. It may run twice: it must
    /// not do anything but read and change tables of the transaction.
    ///
    /// On the server it happens as one, too, where that takes batches: nobody ever sees half of it.
    /// When the server refuses one of its operations, it does none, and all of them are parked, each
    /// with its ``TableOperationError``. A retry or an edit of one of the rows sends all of them
    /// again; one that is discarded leaves the transaction. A transaction that changes a row which
    /// an earlier one changed, and which was not sent yet, is sent after that one. If the earlier one
    /// is rejected, the later one waits for it.
    ///
    /// A server that takes no batches, as the original ones, gets the operations in their order,
    /// each by itself: there one may be rejected while the others go through.
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
    /// - Returns: What the closure returns.
    /// - Throws: What the closure throws, and ``SyncError`` with code `storeNotInitialized`,
    ///   `storeFailure`, `cancelled` when the task is cancelled before all of it was done, or
    ///   `transactionTooLarge` when the transaction alone has more than
    ///   ``SyncLimits/transactionRowsMax`` operations or ``SyncLimits/transactionBytesMax`` bytes;
    ///   nothing is changed then. It never fails because of other changes in the queue.
    @discardableResult
    @concurrent
    public nonisolated func transaction<Result: Sendable>(
        _ body: @escaping @Sendable (SyncTransaction) throws -> Result
    ) async throws -> Result {
        try await engine().transaction(isGroup: true, of: body)
    }
}
