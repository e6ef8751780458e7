// TableStore: the protocol between the routes and a database; TidelineServerSQLite and TidelineServerPostgres
// implement it.

import Synchronization
package import TidelineCore

/// A database with tables.
///
/// Rejections are thrown as ``ServerError``; other failures are thrown unchanged. A write that has returned is
/// durable, and visible to every read that begins afterwards.
package protocol TableStore: Sendable {
    /// Creates missing tables, columns and indexes.
    ///
    /// - Parameters:
    ///   - tables: The declared tables.
    ///   - filtered: The tables, in lower case, whose rows a hook filters. If a table's log has to record more
    ///     than before, the horizon rises to its last commit timestamp.
    ///   - isComplete: Whether a stored column that is not declared is rejected.
    /// - Returns: All tables of the database that were ever prepared, with all columns.
    /// - Throws: ``SchemaError`` if a change would lose data. On an error, nothing is changed.
    func prepare(
        _ tables: [TableDefinition],
        filtered: Set<String>,
        isComplete: Bool
    ) async throws -> [TableDefinition]

    /// Returns one page of a list.
    func list(_ request: ListRequest, in table: Table) async throws -> ListPage

    /// Returns the current definition of a table that other servers may change.
    ///
    /// Nil if the table does not exist, or no other server can change tables.
    func stored(_ name: String) async throws -> TableDefinition?

    /// Returns the table's clock, which includes every write that has returned.
    ///
    /// The call is nearly free if external writers cannot change the database.
    func clock(of table: Table) async throws -> TableClock

    /// Returns the changes after a time, ordered by commit timestamp, from one snapshot of the database.
    ///
    /// A visible row is returned with its values if it matches the filter and is not deleted; otherwise it is
    /// returned as removed. A row that is no longer visible is returned as removed.
    ///
    /// - Throws: ``ServerError/epochChanged`` for a time that lies in the future.
    func changes(_ request: ChangeRequest, in table: Table) async throws -> ChangePage

    /// Returns counts and hashes of rows, from one snapshot of the database.
    func digest(_ request: DigestRequest, in table: Table) async throws -> TableDigest

    /// Returns the row with this id, even if it is a tombstone; nil if it does not exist or is not visible.
    ///
    /// - Throws: ``RowReservation/MemoryShortage`` before the row is built, if `reservation` has too little memory for
    ///   it.
    func read(
        _ id: String,
        view: QueryExpression?,
        in table: Table,
        reservation: RowReservation?
    ) async throws -> StoredRow?

    /// Returns the same row with all values that the database stores for it.
    func image(_ id: String, view: QueryExpression?, in table: Table) async throws -> RowImage?

    /// Evaluates the default expressions of columns, given by index, that are only declared in the database.
    func databaseDefaults(of places: [Int], in table: Table) async throws -> [Int: SQLValue]

    /// Plans the writes with ``WritePlanner``, and performs them in one transaction, possibly with other
    /// batches.
    ///
    /// Missing tables and columns are created in the same transaction if something is written. The write is
    /// rejected if the database has another object with that name. If ``AnswerBudget/fits(_:)`` finds too
    /// little memory for its answer, the write is rejected with ``ServerError/batchMemoryFull`` before it
    /// begins.
    ///
    /// - Returns: The outcome of each group, in order.
    /// - Throws: An error if nothing of the batch was done.
    func write(_ batch: WriteBatch) async throws -> [GroupOutcome]

    /// Returns whether a write with this key is new, according to the committed state of the ledger.
    ///
    /// If the result is false, ``write(_:)`` answers the write without executing it, unless the key has become
    /// new in the meantime, for example because its time is no longer in the future. In that case,
    /// ``WriteBatch/Write/isRepeatOnly`` rejects the write.
    func isNew(_ key: RepeatKey) async throws -> Bool

    /// Returns the epoch of the database, which changes when it is restored from a backup.
    func epoch() async throws -> String

    /// Reports the last commit timestamps of all tables, and then those that each commit changes.
    ///
    /// A commit is reported before its writes return.
    func watch(_ report: @escaping @Sendable ([TableTimestamp]) -> Void) async throws

    /// Calls `report` with the epoch of the database whenever it may have changed while this server runs.
    ///
    /// On a new connection, the epoch is reported before the first write.
    func watchEpoch(_ report: @escaping @Sendable (String) -> Void)

    /// Continues cascades that are pending, from now on.
    ///
    /// - Parameter graph: Returns the current references between the tables.
    /// - Throws: An error if the store is stopped.
    func continueCascades(in graph: @escaping @Sendable () -> ReferenceGraph?) async throws

    /// Checks whether a write would be accepted; the result may be a second old.
    ///
    /// - Throws: ``ServerError`` with status 503 and the reason.
    func checkWritable() async throws

    /// The number of waiting writes.
    var writeQueueLength: Int { get }

    /// The size of the write-ahead log on disk.
    var logBytes: Int { get }

    /// Returns the sizes on the disk, for display.
    func sizes() async throws -> [StoreSize]

    /// The checks of the database that currently fail.
    var warnings: [StoreWarning] { get }

    /// Finishes the running work and closes the database; later calls are rejected.
    func stop() async
}

/// The size of a part of a database.
package struct StoreSize: Sendable, Hashable {
    package var part: String
    package var bytes: Int64

    package init(_ part: String, _ bytes: Int64) {
        self.part = part
        self.bytes = bytes
    }
}

extension TableStore {
    /// Returns the row with this id, without a check of the memory for answers.
    package func read(
        _ id: String,
        view: QueryExpression?,
        in table: Table
    ) async throws -> StoredRow? {
        try await read(id, view: view, in: table, reservation: nil)
    }

    package func stored(_ name: String) async throws -> TableDefinition? { nil }

    package func databaseDefaults(
        of places: [Int],
        in table: Table
    ) async throws -> [Int: SQLValue] { [:] }

    package func continueCascades(
        in graph: @escaping @Sendable () -> ReferenceGraph?
    ) async throws {}

    package var warnings: [StoreWarning] { [] }
}

/// An error for declared tables that do not match the stored ones.
package struct SchemaError: Error, Sendable, CustomStringConvertible {
    package var description: String

    package init(_ description: String) {
        self.description = description
    }

    /// Returns the error for rows that break a `unique` rule before the rule exists.
    package static func notUnique(
        _ columns: [String],
        in table: String,
        rows: Int64?
    ) -> SchemaError {
        SchemaError(
            "Table '\(table)', unique (\(columns.joined(separator: ", "))): \(rows ?? 0) rows have the "
                + "same values as another row. Nothing was changed. Change or delete these rows first, "
                + "or remove the rule."
        )
    }
}

/// A row in its wire form.
package struct StoredRow: Sendable {
    /// The JSON object.
    package var json: [UInt8]
    package var state: RowState

    package init(json: [UInt8], state: RowState) {
        self.json = json
        self.state = state
    }
}

/// The outcome of one write: the decision and the row.
package struct WriteOutcome: Sendable {
    package var decision: WriteDecision
    /// The row after the write, or the row that caused its rejection.
    package var row: StoredRow?
    /// Whether a conflict handler wrote a row in response to a delete.
    package var isInPlaceOfDelete = false
    /// Whether the write had a version other than the stored one, and a conflict rule or a handler resolved the
    /// conflict.
    package var isResolved = false
    /// The id of the row if an earlier request made the write; nil if this request made it.
    package var repeatedID: String?
    private var rare: Rare?

    package init(_ decision: WriteDecision, row: StoredRow? = nil) {
        self.decision = decision
        self.row = row
    }

    /// The fields that few outcomes have, stored separately so that copies of most outcomes are cheap.
    private final class Rare: Sendable {
        let rejection: ServerError?
        let grown: TableDefinition?
        let hiddenRow: StoredRow?

        init(
            rejection: ServerError? = nil,
            grown: TableDefinition? = nil,
            hiddenRow: StoredRow? = nil
        ) {
            self.rejection = rejection
            self.grown = grown
            self.hiddenRow = hiddenRow
        }
    }

    /// The reason why the values that the write would have stored are rejected.
    package var rejection: ServerError? { rare?.rejection }

    /// The table as it is in the database now, if the write created it or added columns.
    package var grown: TableDefinition? {
        get { rare?.grown }
        set { rare = Rare(rejection: rejection, grown: newValue, hiddenRow: hiddenRow) }
    }

    /// The complete row for hooks, if `row` is a stub for a caller without read permission.
    package var hiddenRow: StoredRow? {
        get { rare?.hiddenRow }
        set { rare = Rare(rejection: rejection, grown: grown, hiddenRow: newValue) }
    }

    /// Whether this request changed the row.
    package var changesRow: Bool { decision.changesRow && repeatedID == nil }

    package static func rejected(_ error: ServerError) -> WriteOutcome {
        var outcome = WriteOutcome(.rejected)
        outcome.rare = Rare(rejection: error)
        return outcome
    }
}

/// The caller of a read, by which callers take turns.
package enum ReadCaller: Hashable, Sendable {
    case unknown
    /// A user, by its id.
    case user(String)
    /// A caller without a token, by the network of its address.
    case address(String)
}

/// The query of a list.
package struct ListRequest: Sendable {
    package var caller = ReadCaller.unknown
    /// The visibility filter of the caller; nil for all rows.
    package var view: QueryExpression?
    package var filter: QueryExpression?
    /// The keys of the order.
    ///
    /// No key follows `id`, which is added if it is missing.
    package var order: [SortKey] = []
    /// Indexes among columns and system columns; nil for all.
    package var select: [Int]?
    /// The keys of the row after which the page begins.
    ///
    /// There is one key for each of `order`, followed by the id unless it is already the last one.
    package var after: [SQLValue]?
    /// The anchor of the row after which the page begins; it replaces `after` if the keys are too long for a link.
    package var anchor: PageAnchor?
    package var offset = 0
    /// The millisecond of the first rows, for clients that continue within a millisecond.
    ///
    /// `offset` skips the rows of that millisecond that the client has.
    package var tie: Int64?
    package var rowsMax = 50
    package var bytesMax = 4 << 20
    package var includesDeleted = false
    package var wantsCount = false
    /// The bytes before the first row, such as `[`.
    package var opening: [UInt8] = []
    /// A cache for the rendering of this request, if the request may be repeated with a different state of the
    /// database.
    package var rendering: CachedRendering?
    /// The memory reservation, which grows with the page; nil if the maximum is already reserved.
    package var reservation: PageReservation?

    package init() {}
}

/// The row after which a page begins, without the values of its long keys.
///
/// The long keys are read again from the row. If the row has changed, the page begins at the first row that may
/// follow its old position, so that rows may be repeated but not skipped.
package struct PageAnchor: Hashable, Sendable {
    package var id: String
    package var version: Int64
    /// The keys before the first long one.
    package var keys: [SQLValue]
    /// The prefix of the long key; nil if `keys` was cut because there are too many keys.
    package var prefix: SQLValue?

    package init(id: String, version: Int64, keys: [SQLValue], prefix: SQLValue?) {
        self.id = id
        self.version = version
        self.keys = keys
        self.prefix = prefix
    }
}

/// A cached rendering of a request by a database.
package final class CachedRendering: Sendable {
    private let stored = Mutex<(any Sendable)?>(nil)

    package init() {}

    package var value: (any Sendable)? {
        get { stored.withLock { $0 } }
        set { stored.withLock { $0 = newValue } }
    }
}

/// A page of a list as JSON bytes, with the data for the links to the next page.
package struct ListPage: Sendable {
    /// The opening and the rows, separated by commas, without a closing bracket.
    package var bytes: [UInt8]
    package var rows: Int
    /// The number of rows that match the filter, if requested.
    package var count: Int64?
    /// The keys of the last row, if more rows follow.
    package var next: [SQLValue]?
    /// The version of the last row, if its keys may be long.
    package var nextVersion: Int64?
    /// The time of the last row in microseconds, if the request has a `tie`.
    package var lastUpdatedAt: Int64?
    /// The table clock in the snapshot of the page; nil if it has to be read after the page.
    package var clock: TableClock?

    package init(
        bytes: [UInt8],
        rows: Int,
        count: Int64? = nil,
        next: [SQLValue]? = nil,
        nextVersion: Int64? = nil,
        lastUpdatedAt: Int64? = nil,
        clock: TableClock? = nil
    ) {
        self.bytes = bytes
        self.rows = rows
        self.count = count
        self.next = next
        self.nextVersion = nextVersion
        self.lastUpdatedAt = lastUpdatedAt
        self.clock = clock
    }
}
