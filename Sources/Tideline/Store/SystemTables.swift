// SystemTables: the tables beside the app's own: queue, errors, configuration (the three of the
// original, classic-protocol.md 3.9.2), and the server rows behind pending operations.

import Foundation
import TidelineCore

enum SystemTables {
    static let operations = "MS_TableOperations"
    static let errors = "MS_TableOperationErrors"
    static let config = "MS_TableConfig"
    static let bases = "MS_TableBases"

    static let names: Set<String> = [operations, errors, config, bases]

    /// Whether a name is one of these, in any letter case.
    static func owns(_ name: String) -> Bool {
        names.contains { $0.lowercased() == name.lowercased() }
    }

    static let schemas: [TableSchema] = [
        TableSchema(
            local: operations,
            key: .integer,
            columns: [
                ColumnDefinition("itemId", .string),
                ColumnDefinition("properties", .binary),
                ColumnDefinition("table", .string),
                ColumnDefinition("tableKind", .integer),
                ColumnDefinition("state", .integer),
            ]
        ),
        TableSchema(
            local: errors,
            key: .string,
            columns: [
                ColumnDefinition("operationId", .integer),
                ColumnDefinition("properties", .binary),
                ColumnDefinition("tableKind", .integer),
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
            local: bases,
            key: .string,
            columns: [
                ColumnDefinition("table", .string),
                ColumnDefinition("itemId", .string),
                ColumnDefinition("properties", .binary),
            ]
        ),
    ]

    /// The columns that look-ups go by, for stores that have indexes.
    static let indexes: [(table: String, columns: [String])] = [
        (operations, ["table", "itemId"]), (errors, ["operationId"]), (bases, ["table"]),
    ]

    /// The key of a row of `bases`; table names hold no line feed, ids no control characters.
    static func baseKey(_ table: String, _ itemID: String) -> Value {
        .string("\(table)\n\(itemID)")
    }
}

/// Shorthands for filters over system tables.
extension Filter {
    static func equal(_ column: String, _ value: Value) -> Filter {
        Filter(QueryExpression.compare(.eq, QueryExpression(.field(column)), literal(value)))
    }

    static func greater(_ column: String, _ value: Value) -> Filter {
        Filter(QueryExpression.compare(.gt, QueryExpression(.field(column)), literal(value)))
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
}
