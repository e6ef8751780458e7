// SchemaStep: one difference between the tables of a database and the declared tables.

package import TidelineCore

/// A change that makes a table match its declaration.
package struct SchemaStep: Sendable, Hashable {
    package enum Kind: Sendable, Hashable {
        case createTable
        /// Adopts a table that another program created, with these changes.
        case adoptTable(changes: [String])
        /// Adds a column; `rows` rows get a new version, because devices do not know the default.
        case addColumn(ColumnDefinition, rows: Int64)
        /// Renames a column, whose former name is an alias now.
        case renameColumn(String, to: ColumnDefinition)
        /// Drops a column with `values` values.
        case dropColumn(ColumnDefinition, values: Int64)
        /// Converts `values` values, of which `lost` cannot be converted.
        case convert(ColumnDefinition, to: ColumnDefinition, values: Int64, lost: Int64)
        /// Replaces null in `rows` rows of a column that no longer allows it.
        case fillNulls(ColumnDefinition, rows: Int64)
        /// Replaces the clocks of a table's owners, which earlier versions had, with the table clock.
        case removeOwnerClocks
        /// Restores a declared table that another program has dropped or renamed.
        case restoreTable
        /// Removes the record of an undeclared table that another program has dropped or renamed.
        case forgetTable
        /// Restores a column that another program has dropped or renamed.
        case restoreColumn(ColumnDefinition)
        /// Restores the triggers that report external writes, if another program dropped or disabled them.
        case restoreTriggers
        /// Keeps a table that is no longer declared.
        case keepTable
    }

    package var table: String
    package var kind: Kind

    package init(table: String, kind: Kind) {
        self.table = table
        self.kind = kind
    }

    /// Whether stored data is changed or lost, so that an operator must confirm the step.
    package var needsConsent: Bool {
        switch kind {
        case .createTable, .addColumn, .removeOwnerClocks, .restoreTriggers, .keepTable: false
        case .adoptTable, .renameColumn, .restoreTable, .forgetTable, .restoreColumn: true
        case .dropColumn(_, let values): values > 0
        case .convert(_, _, let values, _): values > 0
        case .fillNulls(_, let rows): rows > 0
        }
    }

    /// Whether the server reports the step to operators.
    package var isNotable: Bool {
        switch kind {
        case .createTable: false
        case .addColumn(_, let rows): rows > 0
        case .adoptTable, .renameColumn, .dropColumn, .convert, .fillNulls, .removeOwnerClocks,
            .keepTable,
            .restoreTable, .forgetTable, .restoreColumn, .restoreTriggers:
            true
        }
    }

    /// Whether the step changes the database.
    package var changesDatabase: Bool { kind != .keepTable }
}

extension SchemaStep: CustomStringConvertible {
    /// A sentence for the list of steps.
    package var description: String {
        switch kind {
        case .createTable: "Table '\(table)' is created."
        case .adoptTable(let changes):
            (["Table '\(table)' already exists and will be served"] + changes)
                .joined(separator: "; ") + "."
        case .addColumn(let column, let rows):
            "\(place(column)): it is added (\(column.type.name))."
                + (rows > 0
                    ? " \(count(rows, "row")) get\(rows == 1 ? "s" : "") the default, which is sent to all devices."
                    : "")
        case .renameColumn(let old, let column):
            "\(place(column)): it is renamed from '\(old)', which remains as an alias. All devices pull "
                + "the table from the start."
        case .dropColumn(let column, let values):
            "\(place(column)): it is removed, with \(count(values, "value"))."
        case .convert(let old, let new, let values, let lost):
            "\(place(new)): \(count(values, "value")) become\(values == 1 ? "s" : "") \(form(new)), "
                + "previously \(form(old))." + loss(lost, new)
        case .fillNulls(let column, let rows):
            "\(place(column)): it is no longer nullable; \(count(rows, "row")) with null "
                + "get\(rows == 1 ? "s" : "") the default."
        case .removeOwnerClocks:
            "Table '\(table)' had a clock for each owner. It now has one table clock; all devices pull once from the "
                + "start."
        case .restoreTable:
            "Table '\(table)' no longer exists in the database. It is recreated empty; all devices pull it from the "
                + "start."
        case .forgetTable:
            "Table '\(table)' no longer exists in the database and is not declared. Its metadata is deleted; all "
                + "devices pull it from the start."
        case .restoreColumn(let column):
            "\(place(column)): it no longer exists in the database. It is recreated empty; all devices pull the "
                + "table from the start."
        case .restoreTriggers:
            "Table '\(table)' lacks triggers that report the writes of other programs. They are recreated; all "
                + "devices pull the table from the start."
        case .keepTable:
            "Table '\(table)' is not declared. It stays in the database and is not served."
        }
    }

    /// The message of a server that does not start because of the step.
    package var rejection: String {
        switch kind {
        case .dropColumn(let column, let values):
            "\(place(column)): it exists in the database with \(count(values, "value")) but is not declared."
        case .convert(let old, let new, let values, let lost):
            "\(place(new)): it has \(count(values, "value")) of type \(form(old)) but is declared as "
                + "\(form(new))." + loss(lost, new)
        case .fillNulls(let column, let rows):
            "\(place(column)): it is declared as not nullable, but \(count(rows, "row")) "
                + "\(rows == 1 ? "has" : "have") null."
        case .renameColumn(let old, let column):
            "\(place(column)): it is named '\(old)' in the database, which is declared as an alias."
        case .adoptTable:
            "Table '\(table)' exists in the database, but was not created by a Tideline server."
        case .restoreTable:
            "Table '\(table)' was dropped or renamed in the database. Restore it under this name, or let it be "
                + "recreated empty."
        case .restoreColumn(let column):
            "\(place(column)): it was dropped or renamed in the database. Restore it under this name, or "
                + "let it be recreated empty."
        case .createTable, .addColumn, .removeOwnerClocks, .restoreTriggers, .forgetTable,
            .keepTable:
            description
        }
    }

    private func loss(_ lost: Int64, _ column: ColumnDefinition) -> String {
        guard lost > 0 else { return "" }
        let place = column.isNullable ? "null" : "the default"
        return lost == 1
            ? " 1 of them cannot be converted and becomes \(place)."
            : " \(lost) of them cannot be converted and become \(place)."
    }

    /// The table, or the table and column, that the step changes.
    package var place: String {
        switch kind {
        case .createTable, .adoptTable, .removeOwnerClocks, .keepTable, .restoreTable, .forgetTable,
            .restoreTriggers:
            "Table '\(table)'"
        case .restoreColumn(let column), .addColumn(let column, _), .dropColumn(let column, _),
            .fillNulls(let column, _), .renameColumn(_, let column),
            .convert(let column, _, _, _):
            place(column)
        }
    }

    private func place(_ column: ColumnDefinition) -> String {
        "Table '\(table)', column '\(column.name)'"
    }

    private func form(_ column: ColumnDefinition) -> String {
        guard case .enumeration(let members) = column.type else { return column.type.name }
        return "enum (" + members.joined(separator: ", ") + ")"
    }

    private func count(_ number: Int64, _ word: String) -> String {
        number == 1 ? "1 \(word)" : "\(number) \(word)s"
    }
}
