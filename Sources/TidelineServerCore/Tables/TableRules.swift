// TableRules: the permissions of a table, its conflict rule, and the values that its tombstones keep.

/// The access level for each operation on a table.
public struct TablePermissions: Hashable, Sendable {
    /// The callers who may perform an operation.
    public enum Access: String, Hashable, Sendable, CaseIterable {
        /// Every caller.
        case anonymous
        /// Every caller with a valid token.
        case authenticated
        /// No caller. The operation is rejected with 405.
        case disabled
    }

    /// Access to lists and single rows; here and below, nil means the default.
    public var read: Access?
    /// Access to inserts.
    public var insert: Access?
    /// Access to updates, including undelete.
    public var update: Access?
    /// Access to deletes.
    public var delete: Access?

    /// Creates permissions; the default is `authenticated` if the server has authentication, otherwise
    /// `anonymous`.
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

/// The rule for conflicts: writes whose version is not the stored one.
public enum ConflictRule: String, Hashable, Sendable, CaseIterable {
    /// The write is rejected with the stored row, and the caller decides.
    case reject
    /// The write is dropped, and the answer is the stored row as if it had been written; a delete is rejected.
    case serverWins
    /// The write is executed as if it had no version.
    case clientWins
    /// Each column that only one side changed is taken from that side.
    ///
    /// If both sides changed a column to different values, the write is rejected with the stored row.
    case merge
}

/// The values of a deleted row that are kept in its tombstone.
public enum TombstoneRule: String, Hashable, Sendable, CaseIterable {
    /// All values.
    case full
    /// No values: only the id, the version, the times, the owner, and references and foreign keys that
    /// must not be null.
    case bare
}

extension TablePermissions {
    /// Returns the permissions, with `access` for each operation that is not set.
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

    /// Returns the access that a request on the table or a row requires; nil for an unsupported method.
    func access(_ method: String, isRow: Bool) -> Access? {
        switch (method, isRow) {
        case ("GET", _): read
        case ("POST", false): insert
        case ("PATCH", _), ("PUT", true), ("POST", true): update
        case ("DELETE", true): delete
        default: nil
        }
    }

    /// Returns the methods that are not disabled, for `Allow`.
    func allowed(_ methods: [String], isRow: Bool) -> String {
        HTTPMethods.listed(methods.filter { access($0, isRow: isRow) != .disabled })
    }
}
