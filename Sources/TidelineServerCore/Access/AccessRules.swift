// AccessRules: the permissions of a caller for a table and its rows.

import TidelineCore

/// The permissions of callers.
struct AccessRules: Sendable {
    let catalog: TableCatalog
    /// The access to a table that does not exist yet and that an insert may create.
    let accessOfNewTables: TablePermissions.Access

    /// Rejects a caller without a token if the access requires one.
    func require(_ access: TablePermissions.Access, _ user: User?) throws {
        if access == .authenticated && user == nil { throw ServerError.notSignedIn }
    }

    /// Returns whether the caller may read rows of the table; only then do rejections contain the stored row.
    func mayRead(_ table: Table, _ user: User?) -> Bool {
        if user?.isOperator == true { return true }
        return switch table.definition.permissions.read {
        case .anonymous: true
        case .authenticated: user != nil
        case .disabled, nil: false
        }
    }

    /// Returns the conflict rule for this caller.
    ///
    /// Whether a write can be merged reveals values of the row, so writes of callers that may not read are
    /// rejected instead.
    func conflictRule(of table: Table, for user: User?) -> ConflictRule {
        let rule = table.definition.conflict
        return rule == .merge && !mayRead(table, user) ? .reject : rule
    }

    /// Sets the owner of a new row to its creator.
    ///
    /// An owner in the body is ignored, except in an operator's insert.
    func setOwner(_ operation: inout WriteOperation, _ user: User?, _ table: Table) {
        guard let place = table.ownerIndex, operation.values.indices.contains(place) else { return }
        if user?.isOperator == true, operation.kind == .insert,
            case .text(let owner)? = operation.values[place], Authenticator.isUsable(owner)
        {
            return
        }
        operation.values[place] =
            operation.fillsDefaults ? user.map { .text($0.id) } : nil
    }

    /// Checks the permission to delete if a write sets `deleted`, whatever the method.
    func checkDelete(_ call: TableCall, _ table: Table) throws {
        guard table.definition.softDelete else { throw ServerError.noSoftDelete }
        if call.user?.isOperator == true { return }
        guard let access = table.definition.permissions.delete, access != .disabled else {
            throw ServerError.deleteNotAllowed(
                allowedMethods(table.name, isRow: true, call.generation)
            )
        }
        try require(access, call.user)
    }

    // MARK: - Methods

    /// Rejects unknown methods, and those that are disabled for the table.
    func checkPermission(
        _ call: TableCall,
        _ name: String,
        isRow: Bool
    ) throws {
        let permissions = permissions(named: name)
        let methods = Self.methods(isRow: isRow, call.generation)
        let method = call.request.method
        if call.user?.isOperator == true, methods.contains(method) { return }
        guard methods.contains(method), let access = permissions.access(method, isRow: isRow),
            access != .disabled
        else {
            throw ServerError.methodNotAllowed(permissions.allowed(methods, isRow: isRow))
        }
        try require(access, call.user)
    }

    /// Returns the permissions of a table; for a table that does not exist, those that it would be created
    /// with.
    private func permissions(named name: String) -> TablePermissions {
        if let table = catalog.table(named: name) { return table.definition.permissions }
        return TablePermissions().filled(with: accessOfNewTables)
    }

    /// Returns whether reads of a table are enabled, which is true for a table that does not exist.
    func allowsReads(_ table: String) -> Bool {
        permissions(named: table).access("GET", isRow: true) != .disabled
    }

    private static func methods(isRow: Bool, _ generation: Generation) -> [String] {
        switch (isRow, generation) {
        case (false, .classic): ["GET", "POST", "PATCH"]
        case (false, .datasync): ["GET", "POST"]
        case (true, .classic): ["GET", "PATCH", "PUT", "DELETE", "POST"]
        case (true, .datasync): ["GET", "PATCH", "PUT", "DELETE"]
        }
    }

    /// Returns the methods of a table or a row that are not disabled; the classic generation has more of them.
    func allowedMethods(_ table: String, isRow: Bool, _ generation: Generation) -> String {
        permissions(named: table).allowed(
            Self.methods(isRow: isRow, generation),
            isRow: isRow
        )
    }

    /// Rejects a patch that tests values for a caller who may not read them.
    func checkTests(_ patch: JSONPatch, _ call: TableCall, _ table: Table) throws {
        guard patch.readsValues, call.user?.isOperator != true else { return }
        guard let access = table.definition.permissions.read, access != .disabled else {
            throw ServerError.testNotAllowed(
                allowedMethods(table.name, isRow: true, call.generation)
            )
        }
        try require(access, call.user)
    }

    /// Returns the methods of a digest, which are none if the table's reads are disabled.
    func digestMethods(_ table: String) -> String {
        allowsReads(table) ? "GET, HEAD" : ""
    }
}
