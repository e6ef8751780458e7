// LostRow, LostRowPolicy: rows that a restored server lost, as the app sees them.

public import TidelineCore

/// The policy for rows that a restored server has lost.
///
/// ```swift
/// try await client.syncContext.initialize(
///     store: try SQLiteStore(path: "todo.sqlite"),
///     tables: [TodoItem.self],
///     lostRows: .sendAgain
/// )
/// ```
public enum LostRowPolicy: Sendable, Hashable, CaseIterable {
    /// Keeps the rows on the device until the app sends them again or discards them.
    case ask
    /// Queues the rows as soon as they are found, so that the next push sends them.
    ///
    /// If another device has changed a row on the restored server in the meantime, the row is kept
    /// until the app decides.
    case sendAgain
    /// Replaces each row with the server's row, or removes it if the server has none, as soon as
    /// the row is found.
    case discard
}

/// A row that the server had before it was restored from a backup, and that the restored server
/// lacks or has only in an older state.
///
/// The row stays on the device, through restarts and further pulls, until it is sent again,
/// discarded, edited or deleted. See <doc:AfterARestore>.
///
/// ```swift
/// for row in try await client.syncContext.lostRows() {
///     if try row.item.decode(TodoItem.self).complete {
///         try await row.discard()
///     } else {
///         try await row.sendAgain()
///     }
/// }
/// ```
public struct LostRow: Sendable, Identifiable, CustomStringConvertible {
    /// The table and the id of the row, separated by a slash.
    public var id: String { "\(table)/\(itemID)" }
    /// The table's name.
    public var table: String
    /// The row's id.
    public var itemID: String
    /// The row on this device.
    public var item: Row
    /// The row on the restored server; nil if the server has none.
    public var serverItem: Row?
    /// Whether the row is deleted on the restored server.
    public var isDeletedOnServer: Bool
    /// The engine; nil for a row that a test created.
    let engine: SyncEngine?

    /// Creates a lost row, for an app's tests; its actions throw ``SyncError`` with code
    /// `notFound`.
    public init(
        table: String,
        itemID: String,
        item: Row,
        serverItem: Row? = nil,
        isDeletedOnServer: Bool = false
    ) {
        (self.table, self.itemID, self.item) = (table, itemID, item)
        (self.serverItem, self.isDeletedOnServer) = (serverItem, isDeletedOnServer)
        engine = nil
    }

    init(_ record: LostRecord, _ item: Row, _ engine: SyncEngine) {
        (table, itemID, self.item) = (record.table, record.itemID, item)
        serverItem = record.server?.row.map(JSONRowReader.withoutDeleted)
        if case .deleted = record.server {
            isDeletedOnServer = true
        } else {
            isDeletedOnServer = false
        }
        self.engine = engine
    }

    /// The columns in which ``item`` and ``serverItem`` differ; empty if the server has no row.
    ///
    /// Columns that stay on the device do not count.
    public var differingColumns: [String] {
        guard let serverItem else { return [] }
        let localColumns = engine?.catalog.schema(table)?.localColumns ?? []
        return RowMerge.differing(item, serverItem).filter { !localColumns.contains($0) }
    }

    /// The table and the id of the row; never its contents.
    public var description: String { "Row '\(itemID)' of table '\(table)' was lost by the server." }

    /// Queues the row; the next push inserts it on the server, or updates the server's row.
    ///
    /// - Throws: ``SyncError`` with code `notFound` if the row is no longer lost.
    public func sendAgain() async throws { try await perform { try $0.lostRecords.sendAgain($1) } }

    /// Replaces the row with the server's row, or removes it if the server has none.
    ///
    /// - Throws: ``SyncError`` with code `notFound` if the row is no longer lost.
    public func discard() async throws { try await perform { try $0.lostRecords.discard($1) } }

    private func perform(
        _ action: @escaping @Sendable (QueueTransaction, LostRecord) throws -> Void
    ) async throws {
        guard let engine, try await engine.lostRows.resolve([self], action) == 1 else {
            throw SyncError.lostRowResolved(table: table, id: itemID)
        }
    }
}

extension SyncContext {
    /// Returns the rows that a restored server has lost, ordered by table and id, without rows of
    /// other accounts.
    ///
    /// - Throws: ``SyncError`` with code `storeNotInitialized` or `storeFailure`.
    public nonisolated func lostRows() async throws -> [LostRow] {
        try await engine().lostRows.all()
    }

    /// The number of rows that a restored server has lost and that have been neither sent again nor
    /// discarded.
    ///
    /// - Throws: ``SyncError`` with code `storeNotInitialized` or `storeFailure`.
    public var lostRowCount: Int {
        get async throws { try await engine().read { try $0.lostRecords.count() } }
    }

    /// Queues lost rows; the next push inserts them on the server, or updates the server's rows.
    ///
    /// ```swift
    /// try await client.syncContext.sendLostRowsAgain { $0.table == "TodoItem" }
    /// try await client.syncContext.push()
    /// ```
    ///
    /// - Parameter condition: Returns whether to send a row; by default, all rows are sent.
    /// - Returns: The number of rows that were queued.
    /// - Throws: ``SyncError`` with code `storeNotInitialized` or `storeFailure`, and the errors of
    ///   the condition. If an error is thrown, nothing is changed.
    @discardableResult
    public nonisolated func sendLostRowsAgain(
        where condition: (LostRow) throws -> Bool = { _ in true }
    ) async throws -> Int {
        let engine = try engine()
        let rows = try await engine.lostRows.all().filter(condition)
        return try await engine.lostRows.resolve(rows) { queue, record in
            try queue.lostRecords.sendAgain(record)
        }
    }

    /// Discards lost rows: replaces each row with the server's row, or removes it if the server has
    /// none.
    ///
    /// ```swift
    /// try await client.syncContext.discardLostRows()
    /// ```
    ///
    /// - Parameter condition: Returns whether to discard a row; by default, all rows are discarded.
    /// - Returns: The number of rows that were discarded.
    /// - Throws: ``SyncError`` with code `storeNotInitialized` or `storeFailure`, and the errors of
    ///   the condition. If an error is thrown, nothing is changed.
    @discardableResult
    public nonisolated func discardLostRows(
        where condition: (LostRow) throws -> Bool = { _ in true }
    ) async throws -> Int {
        let engine = try engine()
        let rows = try await engine.lostRows.all().filter(condition)
        return try await engine.lostRows.resolve(rows) { queue, record in
            try queue.lostRecords.discard(record)
        }
    }
}

/// The app's access to the rows that a restored server has lost.
struct LostRows {
    let engine: SyncEngine

    func all() async throws -> [LostRow] {
        let rows = try await engine.read { reader in
            try reader.lostRecords.all(of: reader.account).compactMap { record in
                try reader.store.row(id: .string(record.itemID), in: record.table)
                    .map { (record, $0) }
            }
        }
        return rows.map { LostRow($0, $1, engine) }
    }

    /// Performs an action, in one transaction, on each of the given rows that is still lost.
    ///
    /// - Returns: The number of rows.
    func resolve(
        _ rows: [LostRow],
        _ action: @escaping @Sendable (QueueTransaction, LostRecord) throws -> Void
    ) async throws -> Int {
        guard !rows.isEmpty else { return 0 }
        let keys = rows.map { ($0.table, $0.itemID) }
        return try await engine.transaction { queue in
            var count = 0
            for (table, id) in keys {
                guard let record = try queue.reader.lostRecords.record(table, id),
                    queue.account.id.map(ItemKey.init) == record.account.map(ItemKey.init)
                else { continue }
                try action(queue, record)
                count += 1
            }
            return count
        }
    }
}

extension SyncError {
    fileprivate static func lostRowResolved(table: String, id: String) -> SyncError {
        SyncError(
            .notFound,
            """
            Row '\(id)' of table '\(table)' is no longer lost: it was sent again, discarded, edited or \
            deleted, or the server has it. Call lostRows() for the remaining rows.
            """
        )
    }

    /// The error of a purge that would remove rows that only this device has.
    static func lostRowsInPurge(_ count: Int) -> SyncError {
        SyncError(
            .pendingOperations,
            """
            The purge would remove \(count) row(s) that the restored server lost. Send them again or \
            discard them first (lostRows()), or purge with 'force: true', which removes them.
            """
        )
    }

    /// The error of a purge that would remove rows that a restored server may have lost.
    static func possiblyLostRowsInPurge(_ count: Int, table: String) -> SyncError {
        SyncError(
            .pendingOperations,
            """
            The server was restored from a backup, and may have lost \(count) row(s) of '\(table)' that the purge \
            would remove. Pull the queries that contain them first. If the error remains, it is \
            not known which account the rows belong to; only a purge with 'force: true' removes \
            them.
            """
        )
    }
}
