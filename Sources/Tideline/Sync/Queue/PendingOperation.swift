// PendingOperation, OperationKind: an entry of the queue as the app sees it.

/// What an operation does to its row.
public enum OperationKind: Int, Sendable, Hashable, CaseIterable {
    /// The row is new.
    case insert = 0
    /// The row changed.
    case update = 1
    /// The row goes.
    case delete = 2
}

/// An operation that the server has not accepted yet.
public struct PendingOperation: Sendable, Hashable, Identifiable {
    /// The place in the queue; operations are sent in this order.
    public var id: Int64
    /// The table's name.
    public var table: String
    /// The row's id.
    public var itemID: String
    /// What it does.
    public var kind: OperationKind
    /// Whether it was sent at least once; from then on it is sent byte for byte the same.
    public var isAttempted: Bool
    /// Whether the server rejected it, so that it waits for the app.
    public var isParked: Bool
    /// The account that made it; nil where nobody was signed in.
    public var account: String?
    /// What operations share that ``SyncContext/transaction(_:)`` made together, and that a server
    /// with batches does all of or none; nil for others.
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
