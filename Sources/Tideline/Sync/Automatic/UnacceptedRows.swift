// UnacceptedRows: the rows whose operations the server did not accept, for a sync status.

/// The number of operations that were not accepted, and the rows of the first ones.
///
/// ```swift
/// if case .blocked(by: .rejectedOperations(let rejected)) = client.currentSyncStatus {
///     for row in rejected.rows { print(row.table, row.itemID, row.statusCode ?? 0) }
/// }
/// ```
public struct UnacceptedRows: Sendable, Hashable, CustomStringConvertible {
    /// The maximum number of rows in ``rows``.
    public static let rowsMax = 20

    /// The number of operations that were not accepted.
    public var count: Int
    /// The rows of the first operations, at most ``rowsMax``.
    ///
    /// Rows that the server fails to process come first, followed by the rows of parked operations
    /// in the order of the queue. If a transaction was rejected, the row that caused it precedes
    /// the transaction's other rows.
    public var rows: [UnacceptedRow]

    /// Creates a value for a test of an app.
    ///
    /// - Parameters:
    ///   - rows: The rows; the first ``rowsMax`` are kept.
    ///   - count: The number of operations; nil if each row has exactly one.
    public init(_ rows: [UnacceptedRow] = [], count: Int? = nil) {
        self.count = count ?? rows.count
        self.rows = Array(rows.prefix(Self.rowsMax))
    }

    /// The number and the rows, such as `2 (TodoItem a, TodoItem b)`.
    public var description: String {
        guard !rows.isEmpty else { return String(count) }
        let names = rows.map { "\($0.table) \($0.itemID)" }.joined(separator: ", ")
        return "\(count) (\(names)\(count > rows.count ? ", …" : ""))"
    }
}

/// A row whose operation was not accepted.
public struct UnacceptedRow: Sendable, Hashable {
    /// The table's name.
    public var table: String
    /// The row's id.
    public var itemID: String
    /// The status of the last response; nil if no response rejected the operation.
    public var statusCode: Int?
    /// Whether the operation waits for the app, with a ``TableOperationError``.
    ///
    /// Otherwise it is retried automatically.
    public var isParked: Bool

    /// Creates a row for a test of an app.
    public init(table: String, itemID: String, statusCode: Int? = nil, isParked: Bool) {
        self.table = table
        self.itemID = itemID
        self.statusCode = statusCode
        self.isParked = isParked
    }
}

extension UnacceptedRows {
    /// Creates a value from the rows that are retried automatically and the operations that wait
    /// for the app.
    init(failing: [FailingRow] = [], parked: [TableOperationError]) {
        let failingRows = failing.lazy.map {
            UnacceptedRow(
                table: $0.table,
                itemID: $0.itemID,
                statusCode: $0.statusCode,
                isParked: false
            )
        }
        let parkedRows = parked.rejectedFirst.lazy.map {
            UnacceptedRow(
                table: $0.table,
                itemID: $0.itemID,
                statusCode: $0.statusCode,
                isParked: true
            )
        }
        self.init(
            Array(failingRows.prefix(Self.rowsMax)) + parkedRows.prefix(Self.rowsMax),
            count: failing.count + parked.count
        )
    }
}
