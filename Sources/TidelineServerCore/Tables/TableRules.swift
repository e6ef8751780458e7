// TableRules: who may do what with a table, who wins a conflict, and whose clock stamps its rows.

/// Who may do each operation on a table.
public struct TablePermissions: Hashable, Sendable {
    /// Who may do one operation.
    public enum Access: String, Hashable, Sendable, CaseIterable {
        /// Everybody.
        case anonymous
        /// Whoever sends a token that the server takes.
        case authenticated
        /// Nobody: the operation is not there, 405.
        case disabled
    }

    /// Lists and single rows; here and below nil means the default.
    public var read: Access?
    /// New rows.
    public var insert: Access?
    /// Changes of rows, undelete too.
    public var update: Access?
    /// Deletes.
    public var delete: Access?

    /// Describes the permissions; the default of each is `authenticated` where the server has
    /// authentication, else `anonymous`.
    public init(
        read: Access? = nil,
        insert: Access? = nil,
        update: Access? = nil,
        delete: Access? = nil
    ) {
        self.read = read
        self.insert = insert
        self.update = update
        self.delete = delete
    }
}

/// What happens to a write whose version is not the stored one.
public enum ConflictRule: String, Hashable, Sendable, CaseIterable {
    /// It is refused with the stored row; the caller decides.
    case reject
    /// It is dropped, and the answer is the stored row as if it had been written; a delete is refused.
    case serverWins
    /// It is done as if it had carried no version.
    case clientWins
    /// Columns that only one side changed are taken from that side; where both changed one to
    /// different values, it is refused with the stored row.
    case merge
}

/// Whose clock gives the rows of a table their versions.
///
/// PostgreSQL only: SQLite has one writer, and one clock for each table either way.
public enum ClockRule: String, Hashable, Sendable, CaseIterable {
    /// The table's: writes of all callers wait for each other at its end, and everybody's changes
    /// have one order.
    case table
    /// Each owner's: writes of two owners have nothing in common. Only owners are told what changed;
    /// who sees the rows of several owners, as operators do, reads lists.
    case owner
}

/// The values of a deleted row that a table keeps.
public enum TombstoneRule: String, Hashable, Sendable, CaseIterable {
    /// All values.
    case full
    /// No values: only the id, the version, the times and the owner.
    case bare
}

extension TablePermissions {
    /// The permissions with `access` in the place of what is not said.
    func filled(with access: Access) -> TablePermissions {
        TablePermissions(
            read: read ?? access,
            insert: insert ?? access,
            update: update ?? access,
            delete: delete ?? access
        )
    }

    /// By the name of the operation.
    var all: [(name: String, access: Access?)] {
        [("read", read), ("insert", insert), ("update", update), ("delete", delete)]
    }

    /// The access that a request on the table or, with an id, on a row needs; nil for no verb of it.
    func access(_ method: String, isRow: Bool) -> Access? {
        switch (method, isRow) {
        case ("GET", _): read
        case ("POST", false): insert
        case ("PATCH", _), ("PUT", true), ("POST", true): update
        case ("DELETE", true): delete
        default: nil
        }
    }

    /// The verbs among these that are not disabled, for `Allow`.
    func allowed(_ methods: [String], isRow: Bool) -> String {
        HTTPMethods.listed(methods.filter { access($0, isRow: isRow) != .disabled })
    }
}
