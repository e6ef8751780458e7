// TableAccess: the rows of a table that a user may access, and the requirements of its access rules.

import TidelineCore

extension TableDefinition {
    /// Adds the owner's column when it is not declared; and takes its declared spelling.
    package mutating func completeOwner() {
        guard let owner else { return }
        if let column = schema.columns.first(where: { $0.name.lowercased() == owner.lowercased() })
        {
            self.owner = column.name
        } else {
            schema.columns.append(ColumnDefinition(owner, .string))
        }
    }

    /// Returns the settings of owner and permissions that cannot be served, each with its key.
    package func accessFaults(hasAuthentication: Bool) -> [(key: String, fault: String)] {
        var faults: [(key: String, fault: String)] = []
        for (name, access) in permissions.all {
            if access == .authenticated && !hasAuthentication {
                faults.append(
                    (
                        "permissions.\(name)",
                        "'authenticated' needs 'authentication', which is not configured"
                    )
                )
            }
            if access == .anonymous && owner != nil {
                faults.append(
                    (
                        "permissions.\(name)",
                        "'anonymous' does not go with 'owner'; 'authenticated' or 'disabled' is "
                            + "expected"
                    )
                )
            }
        }
        if tombstones == .bare, !softDelete {
            faults.append(("tombstones", "a table with 'softDelete' false keeps no tombstones"))
        }
        if let fault = ownerFault(hasAuthentication) { faults.append(("owner", fault)) }
        return faults
    }

    private func ownerFault(_ hasAuthentication: Bool) -> String? {
        guard let owner else { return nil }
        guard hasAuthentication else {
            return "it needs 'authentication', which is not configured"
        }
        if SystemColumn.names.contains(where: { $0.lowercased() == owner.lowercased() }) {
            return "a system column cannot be the owner"
        }
        if let fault = Self.columnFault(owner) {
            return "the column's name cannot be used: \(fault)"
        }
        let name = owner.lowercased()
        guard let column = schema.columns.first(where: { $0.name.lowercased() == name }) else {
            return nil
        }
        guard column.type == .string, column.rules == ColumnRules() else {
            return "the column must be of type string and without rules: it holds the token's sub"
        }
        return nil
    }
}

extension TableService {
    /// Rejects a caller without a token if the access needs one.
    func require(_ access: TablePermissions.Access, _ user: User?) throws {
        if access == .authenticated && user == nil { throw ServerError.notSignedIn }
    }

    /// Whether the caller may read rows of the table: only then rejections carry the stored one.
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
    /// Whether a write can be merged reveals what other callers wrote, so callers who may not read are rejected.
    func conflictRule(of table: Table, for user: User?) -> ConflictRule {
        let rule = table.definition.conflict
        return rule == .merge && !mayRead(table, user) ? .reject : rule
    }

    /// A new row belongs to its creator permanently: an owner in a body is ignored, except in an
    /// operator's insert.
    func setOwner(_ operation: inout WriteOperation, _ user: User?, _ table: Table) {
        guard let place = table.ownerPlace, operation.values.indices.contains(place) else { return }
        if user?.isOperator == true, operation.kind == .insert,
            case .text(let owner)? = operation.values[place], Authenticator.isUsable(owner)
        {
            return
        }
        operation.values[place] =
            operation.fillsDefaults ? user.map { .text($0.id) } : nil
    }

    /// Setting `deleted` is a delete, whatever the verb.
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
}

// MARK: - Verbs

extension TableService {
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

    /// The permissions of a table; of one that is not there those that it would be made with.
    private func permissions(named name: String) -> TablePermissions {
        if let table = catalog.table(named: name) { return table.definition.permissions }
        let isMade = settings.dynamicSchema && settings.authenticator != nil
        return TablePermissions().filled(with: isMade ? .authenticated : .anonymous)
    }

    /// Whether reads of a table are enabled; they are for one that is not there.
    func mayAnybodyRead(_ table: String) -> Bool {
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

    /// The verbs that a table or a row has; the classic generation has all of both.
    func allowedMethods(_ table: String, isRow: Bool, _ generation: Generation) -> String {
        permissions(named: table).allowed(
            Self.methods(isRow: isRow, generation),
            isRow: isRow
        )
    }
}
