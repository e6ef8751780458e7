// RelatedCondition: conditions on the records of another table, for `where:` closures.

import TidelineCore

/// A type of property that can hold the id of another record: a text that may be nil.
public protocol ReferenceKey: Codable, Sendable {}

extension String: ReferenceKey {}
extension Optional: ReferenceKey where Wrapped == String {}

extension Columns where Record: SyncRecord {
    /// Whether the device has the record that a property refers to, and it matches a condition.
    ///
    /// ```swift
    /// let kiel = try Query<Job> { $0.hasParent(Customer.self, on: \.customerID) { $0.city == "Kiel" } }
    /// ```
    ///
    /// It is a condition like any other, also within a condition on related records. Only the tables of a device can
    /// evaluate it: a read from the server and a pull throw ``SyncError`` with code `unsupportedQuery`.
    public func hasParent<Parent: SyncRecord, Key: ReferenceKey>(
        _ parent: Parent.Type,
        on reference: KeyPath<Record, Key>,
        where condition: (Columns<Parent>) throws -> Condition = { _ in .always() }
    ) -> Condition {
        Column {
            let column = try RecordSchema.of(Record.self).column(for: reference)
            return try Self.related(parent, column, key: SystemColumn.id, condition)
        }
    }

    /// Whether the device has a record whose property refers to this one, and which matches a condition.
    ///
    /// ```swift
    /// let busy = try Query<Customer> { $0.hasChild(Job.self, on: \.customerID) { $0.status == .open } }
    /// let idle = try Query<Customer> { !$0.hasChild(Job.self, on: \.customerID) }
    /// ```
    ///
    /// See ``hasParent(_:on:where:)``.
    public func hasChild<Child: SyncRecord, Key: ReferenceKey>(
        _ child: Child.Type,
        on reference: KeyPath<Child, Key>,
        where condition: (Columns<Child>) throws -> Condition = { _ in .always() }
    ) -> Condition {
        Column {
            let key = try RecordSchema.of(Child.self).column(for: reference)
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
