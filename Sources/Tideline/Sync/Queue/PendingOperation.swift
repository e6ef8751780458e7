// PendingOperation, OperationKind: an operation of the queue as the app sees it.

/// The kind of an operation: its effect on the row.
public enum OperationKind: Int, Sendable, Hashable, CaseIterable {
    /// The row is new.
    case insert = 0
    /// The row changed.
    case update = 1
    /// The row is deleted.
    case delete = 2
}

/// An operation that the server has not accepted yet.
public struct PendingOperation: Sendable, Hashable, Identifiable {
    /// The position in the queue; operations are sent in this order.
    public var id: Int64
    /// The table's name.
    public var table: String
    /// The row's id.
    public var itemID: String
    /// The kind of the operation.
    public var kind: OperationKind
    /// Whether it was sent at least once; from then on it is sent byte for byte the same.
    public var isAttempted: Bool
    /// Whether the server rejected it, so that it waits for the app.
    public var isParked: Bool
    /// The account that made it; nil if no account was signed in.
    public var account: String?
    /// The id of its atomic group: the operations that one ``SyncContext/transaction(_:)`` made, all or none
    /// of which a server with batches accepts; nil for an operation without a group.
    public var groupID: String?

    /// An operation, for a test of an app.
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
