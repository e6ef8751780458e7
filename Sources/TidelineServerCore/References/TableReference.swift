// TableReference: a column whose values are ids of rows of another table, and what follows a delete of such a row.

import TidelineCore

/// A column whose values are ids of rows of a table, the parents of its own rows.
///
/// Null means that a row has no parent. The server rejects a write whose reference names a parent that does not exist,
/// is deleted, or is outside of what the caller may see.
///
/// ```swift
/// table.references = [TableReference("customerID", to: "Customer", onDelete: .cascade)]
/// ```
public struct TableReference: Hashable, Sendable {
    /// The column, of type `string` or `guid`.
    public var column: String
    /// The table of the parents; it may be the column's own table.
    public var table: String
    /// What follows the delete of a parent.
    public var onDelete: DeleteRule

    /// Declares a reference.
    public init(_ column: String, to table: String, onDelete: DeleteRule = .restrict) {
        self.column = column
        self.table = table
        self.onDelete = onDelete
    }
}

/// What follows the delete of a row that other rows refer to.
public enum DeleteRule: String, Hashable, Sendable, CaseIterable {
    /// The delete is rejected as long as a row that is not deleted refers to the row.
    case restrict
    /// The references of other rows become null.
    case setNull
    /// The other rows are deleted as well, and so are the rows that refer to them by this rule.
    case cascade
    /// Nothing: the reference is only declared, and the server does not check it.
    case none
}

extension TableDefinition {
    /// The references that the server checks.
    package var checkedReferences: [TableReference] { references.filter { $0.onDelete != .none } }

    /// Uses the declared spelling of columns and tables in the references.
    package mutating func completeReferences(among tables: [TableDefinition]) {
        for place in references.indices {
            if let column = schema.columns.first(where: {
                SchemaPlan.isSame($0.name, references[place].column)
            }) {
                references[place].column = column.name
            }
            if let table = tables.first(where: {
                SchemaPlan.isSame($0.name, references[place].table)
            }) {
                references[place].table = table.name
            }
        }
    }

    /// Adds foreign keys of the database as references, for columns without a declared one.
    ///
    /// A foreign key that cannot set null, because the column must not be null, restricts.
    package mutating func addReferences(_ keys: [TableReference]) {
        for var key in keys {
            guard let column = schema.columns.first(where: { $0.name == key.column }),
                column.type == .string || column.type == .guid, column.name != owner,
                !references.contains(where: { SchemaPlan.isSame($0.column, key.column) })
            else { continue }
            if key.onDelete == .setNull, !column.isNullable { key.onDelete = .restrict }
            references.append(key)
        }
    }

    /// Returns the references that the server cannot check, each with its column and the end of a sentence.
    package func referenceFaults(
        among tables: [TableDefinition]
    ) -> [(column: String, fault: String)] {
        var faults: [(column: String, fault: String)] = []
        var seen: Set<String> = []
        for reference in references {
            let fault =
                seen.insert(reference.column.lowercased()).inserted
                ? fault(of: reference, among: tables)
                : "the column has another reference; a column can have one"
            if let fault { faults.append((reference.column, fault)) }
        }
        return faults
    }

    private func fault(of reference: TableReference, among tables: [TableDefinition]) -> String? {
        guard
            let column = schema.columns.first(where: {
                SchemaPlan.isSame($0.name, reference.column)
            })
        else {
            return "there is no such column; declare it in 'columns'"
        }
        guard tables.contains(where: { SchemaPlan.isSame($0.name, reference.table) }) else {
            return "there is no table '\(reference.table)'"
        }
        guard column.type == .string || column.type == .guid else {
            return "a column of type \(column.type.name) cannot contain an id; "
                + "'string' or 'guid' is expected"
        }
        if let owner, SchemaPlan.isSame(owner, column.name) {
            return "the owner column contains the token's sub, and cannot be a reference"
        }
        if reference.onDelete == .setNull, !column.isNullable {
            return "'setNull' needs a column with 'nullable' true"
        }
        return nil
    }
}

extension [TableDefinition] {
    /// Returns whether a reference that the server checks names a table.
    package func isReferenced(_ table: String) -> Bool {
        contains { definition in
            definition.checkedReferences.contains { SchemaPlan.isSame($0.table, table) }
        }
    }
}
