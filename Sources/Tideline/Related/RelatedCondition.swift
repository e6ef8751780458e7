// RelatedCondition: conditions on the records of another table, for `where:` closures.

import TidelineCore

extension Columns where Record: SyncRecord {
    /// Whether the device has the record that a property refers to, and that record matches a condition.
    ///
    /// ```swift
    /// let kiel = try Query<Job> { $0.hasParent(Customer.self, on: \.customerID) { $0.city == "Kiel" } }
    /// ```
    ///
    /// `reference` is the property; omit it if the model declares exactly one reference to the other model (see
    /// ``SyncRecord/references``). The condition can be combined like any other, and can be nested in another condition
    /// on related records. Only the tables of a device can evaluate it: a read from the server and a pull throw
    /// ``SyncError`` with code `unsupportedQuery`.
    public func hasParent<Parent: SyncRecord>(
        _ parent: Parent.Type,
        on reference: PartialKeyPath<Record>? = nil,
        where condition: (Columns<Parent>) throws -> Condition = { _ in .always() }
    ) -> Condition {
        Column {
            let column = try RecordSchema.column(of: reference, to: parent)
            return try Self.related(parent, column, key: SystemColumn.id, condition)
        }
    }

    /// Whether the device has a record that refers to this record by a property and matches a condition.
    ///
    /// ```swift
    /// let busy = try Query<Customer> { $0.hasChild(Job.self, on: \.customerID) { $0.status == .open } }
    /// let idle = try Query<Customer> { !$0.hasChild(Job.self, on: \.customerID) }
    /// ```
    ///
    /// See ``hasParent(_:on:where:)``.
    public func hasChild<Child: SyncRecord>(
        _ child: Child.Type,
        on reference: PartialKeyPath<Child>? = nil,
        where condition: (Columns<Child>) throws -> Condition = { _ in .always() }
    ) -> Condition {
        Column {
            let key = try RecordSchema.column(of: reference, to: Record.self)
            return try Self.related(child, SystemColumn.id, key: key, condition)
        }
    }

    private static func related<Other: SyncRecord>(
        _ other: Other.Type,
        _ column: String,
        key: String,
        _ condition: (Columns<Other>) throws -> Condition
    ) throws -> QueryExpression {
        let filter = try Filter(for: other, where: condition).unlessTrivial
        return QueryExpression(
            .related(
                RelatedRows(
                    column: column,
                    table: Other.tableName,
                    key: key,
                    condition: filter?.expression
                )
            )
        )
    }
}

extension RecordSchema {
    /// Returns the column of a property that refers to the records of a table; without a property, the column of the
    /// only reference to that table that the model declares.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` or `invalidModel`.
    static func column<Child: SyncRecord, Parent: SyncRecord>(
        of reference: PartialKeyPath<Child>?,
        to parent: Parent.Type
    ) throws -> String {
        let table = try RecordSchema.of(Child.self).table
        guard let reference else {
            let names = table.references.filter {
                $0.table.lowercased() == Parent.tableName.lowercased()
            }
            if names.count == 1, let name = names.first?.column { return name }
            throw SyncError.unsupportedQuery(
                """
                '\(Child.self)' declares \(names.isEmpty ? "no reference" : "several references") to \
                '\(Parent.self)'. Name the property, as in 'on: \\.customerID'.
                """
            )
        }
        let name = try RecordSchema.of(Child.self).column(for: reference)
        guard let column = table.column(named: name), CellKind(column.type) == .text else {
            throw SyncError.unsupportedQuery(
                "column '\(name)' of table '\(table.name)' holds no ids. Name a property of type String."
            )
        }
        return name
    }
}
