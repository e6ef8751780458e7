// SystemTables: the queue, the errors, the configuration, and the other tables that do not belong
// to the app. They have at least the columns of the original SDK.

import Foundation
package import TidelineCore

/// The names and schemas of the tables that a store has in addition to the app's tables.
package enum SystemTables {
    static let operations = "MS_TableOperations"
    static let errors = "MS_TableOperationErrors"
    static let config = "MS_TableConfig"
    /// The rows that the server lost in a restore.
    ///
    /// Not part of the original SDK.
    static let lost = "MS_TableLostRows"

    /// The row states that pushes of this device have replaced.
    ///
    /// Not part of the original SDK.
    static let ownStates = "MS_TableOwnStates"

    static let names: Set<String> = [operations, errors, config, lost, ownStates]

    /// Returns whether a name is the name of a system table, ignoring letter case.
    static func owns(_ name: String) -> Bool {
        names.contains { $0.lowercased() == name.lowercased() }
    }

    /// Returns why an app's table cannot have a name, as the end of a sentence; nil if the name is
    /// valid.
    static func nameFault(_ name: String) -> String? {
        if name.isEmpty { return "it is empty" }
        if name.lowercased().hasPrefix("sqlite_") {
            return "names that begin with 'sqlite_' are reserved by SQLite"
        }
        let isPath = name == "." || name == ".."
        let other = name.unicodeScalars.contains { scalar in
            "/\\?#%".unicodeScalars.contains(scalar)
                || scalar.properties.generalCategory == .control
        }
        return isPath || other ? "it has characters that are not allowed in a URL path" : nil
    }

    package static let schemas: [TableSchema] = [
        TableSchema(
            local: operations,
            key: .integer,
            columns: [
                ColumnDefinition("itemId", .string),
                ColumnDefinition("properties", .binary),
                ColumnDefinition("table", .string),
                ColumnDefinition("tableKind", .integer),
                ColumnDefinition("kind", .integer),
                ColumnDefinition("state", .integer),
                ColumnDefinition("group", .string),
                ColumnDefinition("account", .string),
                ColumnDefinition("attempts", .integer),
                ColumnDefinition("outcomeUnknown", .boolean),
                ColumnDefinition("requestId", .string),
                ColumnDefinition("firstSent", .string),
                ColumnDefinition("method", .string),
                ColumnDefinition("query", .string),
                ColumnDefinition("ifMatch", .string),
                ColumnDefinition("body", .string),
                ColumnDefinition("sentRow", .string),
                ColumnDefinition("unknownSent", .string),
                ColumnDefinition("base", .string),
                ColumnDefinition("latest", .string),
                ColumnDefinition("basisVersion", .string),
                ColumnDefinition("sendsWholeRow", .boolean),
                ColumnDefinition("revives", .boolean),
                ColumnDefinition("conflicts", .integer),
                ColumnDefinition("edit", .string),
                ColumnDefinition("before", .string),
                ColumnDefinition("failedPushes", .integer),
                ColumnDefinition("knownUntil", .integer),
                ColumnDefinition("inherited", .boolean),
            ]
        ),
        TableSchema(
            local: errors,
            key: .string,
            columns: [
                ColumnDefinition("operationId", .integer),
                ColumnDefinition("properties", .binary),
                ColumnDefinition("tableKind", .integer),
                ColumnDefinition("item", .string),
                ColumnDefinition("serverItem", .string),
            ]
        ),
        TableSchema(
            local: config,
            key: .string,
            columns: [
                ColumnDefinition("key", .string),
                ColumnDefinition("keyType", .integer),
                ColumnDefinition("table", .string),
                ColumnDefinition("value", .string),
            ]
        ),
        TableSchema(
            local: lost,
            key: .string,
            columns: [
                ColumnDefinition("table", .string),
                ColumnDefinition("itemId", .string),
                ColumnDefinition("account", .string),
                ColumnDefinition("server", .string),
                ColumnDefinition("checked", .boolean),
            ]
        ),
        TableSchema(
            local: ownStates,
            key: .integer,
            columns: [
                ColumnDefinition("table", .string),
                ColumnDefinition("itemId", .string),
                ColumnDefinition("state", .string),
                ColumnDefinition("next", .string),
                ColumnDefinition("columns", .string),
            ]
        ),
    ]

    /// The indexes for the client's lookups, for stores that support indexes.
    static let indexes: [(name: String, table: String, columns: [String])] = [
        (operations + "_index", operations, ["table", "itemId"]),
        (operations + "_groups", operations, ["group"]),
        (errors + "_index", errors, ["operationId"]),
        (ownStates + "_index", ownStates, ["table", "itemId"]),
    ]
}

/// Shorthand for filters on system tables.
extension Filter {
    static func equal(_ column: String, _ value: Value) -> Filter {
        Filter(QueryExpression.compare(.eq, QueryExpression(.field(column)), literal(value)))
    }

    static func greater(_ column: String, _ value: Value) -> Filter {
        Filter(QueryExpression.compare(.gt, QueryExpression(.field(column)), literal(value)))
    }

    static func less(_ column: String, _ value: Value) -> Filter {
        Filter(QueryExpression.compare(.lt, QueryExpression(.field(column)), literal(value)))
    }

    static func isIn(_ column: String, _ values: [Value]) -> Filter {
        Filter(QueryExpression(.isIn(QueryExpression(.field(column)), values.map(literal))))
    }

    static func differs(_ column: String, from value: Value) -> Filter {
        Filter(QueryExpression.compare(.ne, QueryExpression(.field(column)), literal(value)))
    }

    private static func literal(_ value: Value) -> QueryExpression {
        QueryExpression(.value(value))
    }

    static func && (left: Filter, right: Filter) -> Filter {
        Filter(QueryExpression(.all([left.expression, right.expression])))
    }

    static func || (left: Filter, right: Filter) -> Filter {
        Filter(QueryExpression(.any([left.expression, right.expression])))
    }
}
