// PendingOperation, OperationKind: a queued operation as the app sees it.

/// The kind of an operation.
public enum OperationKind: Int, Sendable, Hashable, CaseIterable {
    /// A new row was inserted.
    case insert = 0
    /// The row was changed.
    case update = 1
    /// The row was deleted.
    case delete = 2
}

/// An operation that the server has not accepted yet.
public struct PendingOperation: Sendable, Hashable, Identifiable {
    /// The position in the queue, which determines the order in which operations are sent.
    public var id: Int64
    /// The table's name.
    public var table: String
    /// The row's id.
    public var itemID: String
    /// The kind of the operation.
    public var kind: OperationKind
    /// Whether the operation was sent at least once; from then on, each attempt sends the same
    /// bytes.
    public var isAttempted: Bool
    /// Whether the operation waits for the app, because the server rejected it or it cannot be
    /// sent.
    public var isParked: Bool
    /// The account of the operation; nil if no account was signed in.
    public var account: String?
    /// The id of the atomic group, which has the operations of one ``SyncContext/transaction(_:)``;
    /// nil if there is none.
    ///
    /// A server that supports batches accepts either all operations of a group or none.
    public var groupID: String?

    /// Creates an operation, for an app's tests.
    public init(
        id: Int64,
        table: String,
        itemID: String,
        kind: OperationKind,
        isAttempted: Bool = false,
        isParked: Bool = false,
        account: String? = nil,
        groupID: String? = nil
    ) {
        self.id = id
        self.table = table
        self.itemID = itemID
        self.kind = kind
        self.isAttempted = isAttempted
        self.isParked = isParked
        self.account = account
        self.groupID = groupID
    }
}
