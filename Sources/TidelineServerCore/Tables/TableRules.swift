// TableRules: the permissions of a table, its conflict rule, and the values that its tombstones keep.

/// The access level for each operation on a table.
public struct TablePermissions: Hashable, Sendable {
    /// The callers who may do one operation.
    public enum Access: String, Hashable, Sendable, CaseIterable {
        /// Every caller.
        case anonymous
        /// Every caller with a valid token.
        case authenticated
        /// No caller. The operation is rejected with 405.
        case disabled
    }

    /// Lists and single rows; here and below nil means the default.
    public var read: Access?
    /// New rows.
    public var insert: Access?
    /// Changes of rows, including undelete.
    public var update: Access?
    /// Deletes.
    public var delete: Access?

    /// Describes the permissions; the default of each is `authenticated` if the server has
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

/// The resolution of a write whose version is not the stored one.
public enum ConflictRule: String, Hashable, Sendable, CaseIterable {
    /// The write is rejected with the stored row; the caller decides.
    case reject
    /// The write is dropped, and the answer is the stored row as if it had been written; a delete is rejected.
    case serverWins
    /// The write is done as if it had carried no version.
    case clientWins
    /// Columns that only one side changed are taken from that side; if both changed one to
    /// different values, the write is rejected with the stored row.
    case merge
}

/// The values of a deleted row that a table keeps.
public enum TombstoneRule: String, Hashable, Sendable, CaseIterable {
    /// All values.
    case full
    /// No values: only the id, the version, the times and the owner.
    case bare
}

extension TablePermissions {
    /// Returns the permissions with `access` for each operation that is not set.
    func filled(with access: Access) -> TablePermissions {
        TablePermissions(
            read: read ?? access,
            insert: insert ?? access,
            update: update ?? access,
            delete: delete ?? access
        )
    }

    /// The access levels, each with the name of its operation.
    var all: [(name: String, access: Access?)] {
        [("read", read), ("insert", insert), ("update", update), ("delete", delete)]
    }

    /// Returns the access that a request on the table or, with an id, on a row needs; nil for an unsupported verb.
    func access(_ method: String, isRow: Bool) -> Access? {
        switch (method, isRow) {
        case ("GET", _): read
        case ("POST", false): insert
        case ("PATCH", _), ("PUT", true), ("POST", true): update
        case ("DELETE", true): delete
        default: nil
        }
    }

    /// Returns the verbs that are not disabled, for `Allow`.
    func allowed(_ methods: [String], isRow: Bool) -> String {
        HTTPMethods.listed(methods.filter { access($0, isRow: isRow) != .disabled })
    }
}
