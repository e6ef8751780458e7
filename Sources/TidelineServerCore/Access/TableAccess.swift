// TableAccess: the rows of a table that a user may access, and the requirements of its access rules.

import TidelineCore

extension TableDefinition {
    /// Adds the owner's column if it is not declared, and otherwise uses its declared spelling.
    package mutating func completeOwner() {
        guard let owner else { return }
        if let column = schema.columns.first(where: { $0.name.lowercased() == owner.lowercased() })
        {
            self.owner = column.name
        } else {
            schema.columns.append(ColumnDefinition(owner, .string))
        }
    }

    /// Returns the owner and permission settings that the server cannot enforce, each with its key.
    package func accessFaults(hasAuthentication: Bool) -> [(key: String, fault: String)] {
        var faults: [(key: String, fault: String)] = []
        for (name, access) in permissions.all {
            if access == .authenticated && !hasAuthentication {
                faults.append(
                    (
                        "permissions.\(name)",
                        "'authenticated' requires 'authentication', which is not configured"
                    )
                )
            }
            if access == .anonymous && owner != nil {
                faults.append(
                    (
                        "permissions.\(name)",
                        "'anonymous' cannot be combined with 'owner'; 'authenticated' or 'disabled' "
                            + "is expected"
                    )
                )
            }
        }
        if tombstones == .bare, !softDelete {
            faults.append(("tombstones", "a table with 'softDelete' false has no tombstones"))
        }
        if let fault = ownerFault(hasAuthentication) { faults.append(("owner", fault)) }
        return faults
    }

    private func ownerFault(_ hasAuthentication: Bool) -> String? {
        guard let owner else { return nil }
        guard hasAuthentication else {
            return "it requires 'authentication', which is not configured"
        }
        if SystemColumn.names.contains(where: { $0.lowercased() == owner.lowercased() }) {
            return "a system column cannot be the owner"
        }
        if let fault = Self.columnFault(owner) {
            return "the column name is not valid: \(fault)"
        }
        let name = owner.lowercased()
        guard let column = schema.columns.first(where: { $0.name.lowercased() == name }) else {
            return nil
        }
        guard column.type == .string, column.rules == ColumnRules() else {
            return
                "the column must be of type string and without rules, because it stores the token's sub"
        }
        return nil
    }
}
