// TableStore: the seam between the routes and a database; SQLite implements it in
// TidelineServerSQLite.

import Synchronization
package import TidelineCore

/// A database that holds tables.
///
/// Failures that the caller can do nothing about are thrown unchanged; rejections as
/// ``ServerError``. A write that returns is durable; a read that begins after it sees it.
package protocol TableStore: Sendable {
    /// Makes the tables, and the columns and indexes that they lack.
    ///
    /// - Parameters:
    ///   - tables: The declared tables.
    ///   - filtered: The tables, in lower case, whose visible rows are decided by code. If a table's log has to
    ///     record more than before, the horizon rises to its last commit timestamp.
    ///   - isComplete: Whether a stored column that is not declared is rejected.
    /// - Returns: every table of the database that was prepared once, with all its columns.
    /// - Throws: ``SchemaError`` for what would lose data; nothing is changed then.
    func prepare(
        _ tables: [TableDefinition],
        filtered: Set<String>,
        isComplete: Bool
    ) async throws -> [TableDefinition]

    /// One page.
    func list(_ request: ListRequest, in table: Table) async throws -> ListPage

    /// Returns the table as it is in a database that other servers may change; nil if it does not exist, or
    /// if no other server changes tables.
    func stored(_ name: String) async throws -> TableDefinition?

    /// How far the table has come: at least to every write that has returned.
    ///
    /// It costs next to nothing if external writers cannot change the database.
    func clock(of table: Table) async throws -> TableClock

    /// Returns the changes after a time, in the order of the commits, from one state of the database.
    ///
    /// A row in the view is returned itself if it fits the filter and is not deleted, otherwise as
    /// removed. A row that was in the view and is not any more is returned as removed.
    ///
    /// - Throws: ``ServerError/epochChanged`` for a time that has not been yet.
    func changes(_ request: ChangeRequest, in table: Table) async throws -> ChangePage

    /// Count and hash of rows, from one state of the database.
    func digest(_ request: DigestRequest, in table: Table) async throws -> TableDigest

    /// The row with this id, tombstones too, or nil; also nil when it is outside the view.
    ///
    /// - Throws: ``RowRoom/Lacking`` if `room` has too little memory for the row, before it is built.
    func read(
        _ id: String,
        view: QueryExpression?,
        in table: Table,
        room: RowRoom?
    ) async throws -> StoredRow?

    /// The same row with all that the database keeps of it.
    func image(_ id: String, view: QueryExpression?, in table: Table) async throws -> RowImage?

    /// Plans with ``WritePlanner`` and writes, in one transaction; many batches may share one.
    ///
    /// Tables and columns that the database lacks are created in that transaction, if something is written. The
    /// write is rejected if the database has something else with that name. A write is rejected with
    /// ``ServerError/noRoomInBatch``, before any of it is done, if ``AnswerBudget/hasRoom(for:)`` finds too
    /// little memory for its answer.
    ///
    /// - Returns: The outcome of each group, in their order.
    /// - Throws: An error if nothing of the batch was done.
    func write(_ batch: WriteBatch) async throws -> [GroupOutcome]

    /// Whether a write with this key is still to be done, as far as is committed by now.
    ///
    /// When it is not, ``write(_:)`` answers it without doing it, unless the time has made it new since:
    /// ``WriteBatch/Write/isRepeatOnly`` keeps it from that.
    func isNew(_ key: RepeatKey) async throws -> Bool

    /// The name of the state of the database, another one after a restore from a backup.
    func epoch() async throws -> String

    /// Reports the last stamps of all tables, and from then on those that each commit moved.
    ///
    /// A commit is reported before its writes return.
    func watch(_ report: @escaping @Sendable ([TableStamp]) -> Void) async throws

    /// Checks whether a write would be accepted now; the result may be a second old.
    ///
    /// - Throws: ``ServerError`` with status 503 and the reason.
    func checkWritable() async throws

    /// How many writes wait.
    var writeQueueLength: Int { get }

    /// The size on the disk of the write-ahead log.
    var logBytes: Int { get }

    /// Returns the sizes on the disk, for people.
    func sizes() async throws -> [StoreSize]

    /// The checks on the database that do not work now.
    var warnings: [StoreWarning] { get }

    /// Finishes the running work and closes the database; later calls are rejected.
    func stop() async
}

/// How much a part of a database takes.
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
        try await read(id, view: view, in: table, room: nil)
    }

    package func stored(_ name: String) async throws -> TableDefinition? { nil }

    package var warnings: [StoreWarning] { [] }
}

/// A schema that does not fit the tables that are there.
package struct SchemaError: Error, Sendable, CustomStringConvertible {
    package var description: String

    package init(_ description: String) {
        self.description = description
    }
}

/// A row as the wire has it.
package struct StoredRow: Sendable {
    /// The JSON object.
    package var json: [UInt8]
    package var state: RowState

    package init(json: [UInt8], state: RowState) {
        self.json = json
        self.state = state
    }
}

package struct WriteOutcome: Sendable {
    package var decision: WriteDecision
    /// The row after the write, or the row that stood against it.
    package var row: StoredRow?
    /// Whether a conflict handler wrote a row instead of the delete.
    package var isInPlaceOfDelete = false
    /// Whether the write named another version than the stored one, and the table's conflict policy or a handler
    /// resolved that.
    package var isResolved = false
    /// The id of the row if an earlier request did the write; nil if this one did it.
    package var repeatedID: String?
    private var rare: Rare?

    package init(_ decision: WriteDecision, row: StoredRow? = nil) {
        self.decision = decision
        self.row = row
    }

    /// The fields that few outcomes have, separate from the common ones, which are copied.
    private final class Rare: Sendable {
        let refusal: ServerError?
        let grown: TableDefinition?
        let hiddenRow: StoredRow?

        init(
            refusal: ServerError? = nil,
            grown: TableDefinition? = nil,
            hiddenRow: StoredRow? = nil
        ) {
            self.refusal = refusal
            self.grown = grown
            self.hiddenRow = hiddenRow
        }
    }

    /// The reason for the rejection of the values that it would have written.
    package var refusal: ServerError? { rare?.refusal }

    /// The table as the database has it now, when the write made it or columns of it.
    package var grown: TableDefinition? {
        get { rare?.grown }
        set { rare = Rare(refusal: refusal, grown: newValue, hiddenRow: hiddenRow) }
    }

    /// The whole row, if `row` is a stub for a caller who may not read: for hooks only.
    package var hiddenRow: StoredRow? {
        get { rare?.hiddenRow }
        set { rare = Rare(refusal: refusal, grown: grown, hiddenRow: newValue) }
    }

    /// Whether this request wrote something.
    package var changesRow: Bool { decision.changesRow && repeatedID == nil }

    package static func refused(_ error: ServerError) -> WriteOutcome {
        var outcome = WriteOutcome(.refused)
        outcome.rare = Rare(refusal: error)
        return outcome
    }
}

/// The caller of a read, so that callers can take turns.
package enum ReadCaller: Hashable, Sendable {
    case nobody
    /// By the id.
    case user(String)
    /// Without a token: by the network of the address.
    case address(String)
}

/// The query of a list, as a store gets it.
package struct ListRequest: Sendable {
    package var caller = ReadCaller.nobody
    /// The visibility filter of the caller; nil for all rows.
    package var view: QueryExpression?
    package var filter: QueryExpression?
    /// Keys of the order; nothing follows the key `id`, and it is added where it is missing.
    package var order: [SortKey] = []
    /// Places among columns and system columns; nil for all.
    package var select: [Int]?
    /// The keys of the row after which the page begins: one for each of `order`, followed by the id
    /// unless it is already the last of them.
    package var after: [SQLValue]?
    /// That row, if its keys are too long for a link; replaces `after`.
    package var mark: PageMark?
    package var offset = 0
    /// The millisecond of the first rows, in the lists of clients that go on from the millisecond of
    /// their last row by counting the rows of it: what they have of it is what `offset` passes over.
    package var tie: Int64?
    package var rowsMax = 50
    package var bytesMax = 4 << 20
    package var includesDeleted = false
    package var wantsCount = false
    /// The bytes before the first row, such as `[`.
    package var opening: [UInt8] = []
    /// Where a database keeps what it makes of this request, when the same one may come again: it
    /// is the same in everything but the state of the database.
    package var kept: KeptRendering?
    /// The memory reservation of the page, which grows with it; nil if all that it may need is reserved.
    package var room: PageRoom?

    package init() {}
}

/// The row after which a page begins, without the values of its long keys.
///
/// They are read again from the row. If the row has changed, the page begins at the first row
/// that may follow its old position: rows may come twice, and none is left out.
package struct PageMark: Hashable, Sendable {
    package var id: String
    package var version: Int64
    /// The keys before the first long one.
    package var keys: [SQLValue]
    /// How the long key begins; nil when `keys` ends for its number.
    package var prefix: SQLValue?

    package init(id: String, version: Int64, keys: [SQLValue], prefix: SQLValue?) {
        self.id = id
        self.version = version
        self.keys = keys
        self.prefix = prefix
    }
}

/// A cached rendering of a request by a database.
package final class KeptRendering: Sendable {
    private let stored = Mutex<(any Sendable)?>(nil)

    package init() {}

    package var value: (any Sendable)? {
        get { stored.withLock { $0 } }
        set { stored.withLock { $0 = newValue } }
    }
}

package struct ListPage: Sendable {
    /// The opening and the rows, separated by commas; without an end.
    package var bytes: [UInt8]
    package var rows: Int
    /// The number of rows of the filter, when asked for.
    package var count: Int64?
    /// The keys of the last row when more rows follow.
    package var next: [SQLValue]?
    /// The version of that row, where its keys may be long.
    package var nextVersion: Int64?
    /// The time of the last row in microseconds, where `tie` was asked for.
    package var lastUpdatedAt: Int64?
    /// The clock in the state that the page was read from; nil if it has to be read after the page.
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
