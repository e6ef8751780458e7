// Reference: a property of a model whose values are ids of rows of another table.

public import TidelineCore

/// A reference from a property of a model to the records of a table, the parents of the model's records.
///
/// ```swift
/// struct Job: SyncRecord {
///     var id = UUID().uuidString.lowercased()
///     var customerID: Customer.ID
///     var title = ""
///
///     static let references = [Reference(\Job.customerID, to: Customer.self, onDelete: .cascade)]
/// }
/// ```
///
/// A device checks references when a record is deleted; a server also checks them when a record is inserted or changed.
/// See <doc:Relations>.
///
/// If a reference does not fit its property, for example because the property holds no text, opening the store throws
/// ``SyncError`` with code `invalidModel`.
public struct Reference<Record>: Sendable {
    private let path: PropertyPath<Record>
    fileprivate let table: String
    private let onDelete: DeleteRule
    /// Whether the records of the parent's table stay on the device.
    fileprivate let isToLocalTable: Bool

    /// Declares a reference.
    ///
    /// - Parameters:
    ///   - path: The property with the id of the parent, which is stored as a string. If it is nil, the record has no
    ///     parent.
    ///   - parent: The type of the parents; it may be the model itself.
    ///   - onDelete: The rule for a delete of the parent. By default, a parent cannot be deleted while a record
    ///     refers to it.
    public init<Parent: SyncRecord>(
        _ path: PropertyPath<Record>,
        to parent: Parent.Type,
        onDelete: DeleteRule = .restrict
    ) {
        self.path = path
        self.onDelete = onDelete
        table = Parent.tableName
        isToLocalTable = Parent.isLocalOnly
    }
}

extension Array {
    /// Returns the references with the names of their columns.
    ///
    /// - Throws: ``SyncError`` with code `invalidModel`, or `unsupportedQuery` for a path that has no column.
    func tableReferences<Record>(
        model: String,
        _ schema: TableSchema,
        column: (AnyKeyPath) throws -> String
    ) throws -> [TableReference] where Element == Reference<Record> {
        var result: [TableReference] = []
        for reference in self {
            let found = try reference.tableReference(model: model, schema, column: column)
            guard !result.contains(where: { $0.column == found.column }) else {
                throw SyncError.invalidModel(
                    model,
                    "two references have the column '\(found.column)'. Remove one from 'references'."
                )
            }
            result.append(found)
        }
        return result
    }

    /// The lowercase names of the referenced tables that stay on the device.
    func localTables<Record>() -> Set<String> where Element == Reference<Record> {
        Set(filter(\.isToLocalTable).map { $0.table.lowercased() })
    }
}

extension TableSchema {
    /// Describes a reference that contradicts a rule or a declaration of what stays on the device; nil if there is no
    /// such reference.
    ///
    /// - Parameter localTables: The lowercase names of the tables that stay on the device.
    /// - Returns: Sentences that include the remedy.
    func referenceFault(localTables: Set<String>) -> String? {
        for reference in references {
            let name = reference.column
            if reference.onDelete == .setNull, column(named: name)?.rules.isRequired == true {
                return """
                    the reference '\(name)' is set to null when its parent is deleted, but the rule '.required' demands \
                    a value. Remove the rule, or choose another 'onDelete'.
                    """
            }
            // The whole table stays on the device.
            guard !isLocalOnly else { continue }
            if localTables.contains(reference.table.lowercased()) {
                return """
                    the reference '\(name)' is sent to a server, which does not have the rows of '\(reference.table)': \
                    they stay on the device. Make this table 'isLocalOnly' as well, or remove the reference.
                    """
            }
            if localColumns.contains(name) {
                return """
                    the reference '\(name)' stays on the device, so a server cannot check it. Remove it from \
                    'localColumns' or from 'references'.
                    """
            }
        }
        return nil
    }
}

extension Reference {
    fileprivate func tableReference(
        model: String,
        _ schema: TableSchema,
        column: (AnyKeyPath) throws -> String
    ) throws -> TableReference {
        let name = try column(path)
        guard let definition = schema.columns.first(where: { $0.name == name }),
            CellKind(definition.type) == .text
        else {
            throw SyncError.invalidModel(
                model,
                """
                the reference to '\(table)' has the column '\(name)', which holds no ids. Name a property of type \
                String.
                """
            )
        }
        guard onDelete != .setNull || definition.isNullable else {
            throw SyncError.invalidModel(
                model,
                """
                the reference '\(name)' is set to null when its parent is deleted, but its property cannot be nil. \
                Make the property optional, or choose another 'onDelete'.
                """
            )
        }
        return TableReference(name, to: table, onDelete: onDelete)
    }
}
