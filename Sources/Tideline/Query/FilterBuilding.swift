// FilterBuilding: builds filters and orders from closures, predicates and sort terms.

package import Foundation
package import TidelineCore

extension Filter {
    /// Creates the condition of a closure over the columns of a model, or over columns by name if the record is
    /// a row.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a property without a column or a
    ///   value without a column type, and the errors of the closure.
    package init<Record>(
        for type: Record.Type,
        where condition: (Columns<Record>) throws -> Condition
    ) throws {
        let columns: Columns<Record>
        if let model = type as? any SyncRecord.Type {
            let schema = try RecordSchema.of(model)
            columns = Columns { try schema.column(for: $0) }
        } else {
            columns = Columns { throw KeyPathNames.noModel($0) }
        }
        self.init(try condition(columns).expression())
    }

    /// Creates the condition of a closure over columns by name.
    package init(where condition: (Columns<Row>) throws -> Condition) throws {
        try self.init(for: Row.self, where: condition)
    }

    /// Creates the condition of a Foundation predicate.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery`, which names the expression that columns cannot express.
    package init<Record: SyncRecord>(_ predicate: Predicate<Record>) throws {
        let schema = try RecordSchema.of(Record.self)
        self.init(try PredicateWalk.expression(predicate) { try schema.column(for: $0) })
    }

    /// The filter, or nil if its condition always matches.
    package var unlessTrivial: Filter? { expression.constantCondition == true ? nil : self }
}

extension RecordCoder {
    /// Returns the column of a key path; throws for plain rows, which have no properties.
    package func column(for path: AnyKeyPath) throws -> String {
        guard let schema else { throw KeyPathNames.noModel(path) }
        return try schema.column(for: path)
    }

    /// Returns the filter of a `where:` closure; nil if every row matches.
    package func filter(_ condition: (Columns<Record>) throws -> Condition) throws -> Filter? {
        // The columns do not outlive the call; they escape only because of their type.
        let columns = Columns<Record> { [schema] path in
            guard let schema else { throw KeyPathNames.noModel(path) }
            return try schema.column(for: path)
        }
        return Filter(try condition(columns).expression()).unlessTrivial
    }

    /// Returns the filter of a predicate; nil if every row matches.
    package func filter(_ predicate: Predicate<Record>) throws -> Filter? {
        let expression = try PredicateWalk.expression(predicate) { try column(for: $0) }
        return Filter(expression).unlessTrivial
    }

    /// Returns the sort keys of an order.
    package func order(_ terms: [SortTerm<Record>]) throws -> [SortKey] {
        try terms.map { try $0.sortKey() }
    }
}

extension RecordCoder where Record: SyncRecord {
    /// Returns the sort keys of an order given by sort descriptors.
    package func order(_ descriptors: [SortDescriptor<Record>]) throws -> [SortKey] {
        try descriptors.map { try SortTerm($0).sortKey() }
    }
}

extension KeyPathNames {
    static func noModel(_ path: AnyKeyPath) -> SyncError {
        .unsupportedQuery(
            "key path '\(path.debugDescription)' of a plain row. Name the column: $0[\"name\"]."
        )
    }
}
