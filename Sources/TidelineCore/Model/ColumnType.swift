// ColumnType, ColumnDefinition, TableSchema: the structure of a table on the client and the server.

import Foundation

/// The type of a column.
public enum ColumnType: Hashable, Sendable {
    /// Text.
    case string
    /// A 64-bit integer.
    case integer
    /// A binary floating-point number.
    case number
    /// An exact decimal number.
    case decimal
    /// True or false.
    case boolean
    /// An instant, in ISO 8601 with an offset on the wire.
    case dateTime
    /// A calendar day, `2026-11-20`.
    case date
    /// A time of day, `07:14:00.000`.
    case time
    /// A UUID, written in lower case.
    case guid
    /// Bytes, base64 on the wire.
    case binary
    /// Any JSON value.
    case json
    /// One of the given strings; the order of the strings is the sort order.
    case enumeration([String])

    /// The name used in configuration files and messages.
    public var name: String {
        switch self {
        case .string: "string"
        case .integer: "integer"
        case .number: "number"
        case .decimal: "decimal"
        case .boolean: "boolean"
        case .dateTime: "dateTime"
        case .date: "date"
        case .time: "time"
        case .guid: "guid"
        case .binary: "binary"
        case .json: "json"
        case .enumeration: "enum"
        }
    }

    /// The types with a fixed name, that is, all types except `enumeration`.
    package static let simple: [ColumnType] = [
        .string, .integer, .number, .decimal, .boolean, .dateTime, .date, .time, .guid, .binary,
        .json,
    ]

    /// The value that a missing member gets in a non-nullable column without a default.
    package var zero: Value {
        switch self {
        case .string, .date, .time, .guid: .string("")
        case .integer: .integer(0)
        case .number: .number(0)
        case .decimal: .decimal(0)
        case .boolean: .bool(false)
        case .dateTime: .date(Timestamp(microseconds: 0).date)
        case .binary: .data(.init())
        case .json: .json(JSON(checked: "null"))
        case .enumeration(let members): .string(members.first ?? "")
        }
    }
}

/// One column of a table.
public struct ColumnDefinition: Hashable, Sendable {
    /// The name on the wire and in the database.
    public var name: String
    /// The type of the column's values.
    public var type: ColumnType
    /// Whether the column accepts null.
    public var isNullable: Bool
    /// The value that is stored if a write omits the column.
    public var defaultValue: Value?
    /// Additional rules for the column's values, which the server checks, and a device before it
    /// queues a write.
    public var rules: ColumnRules

    /// Creates a column.
    public init(
        _ name: String,
        _ type: ColumnType,
        nullable: Bool = true,
        default defaultValue: Value? = nil,
        rules: ColumnRules = ColumnRules()
    ) {
        self.name = name
        self.type = type
        isNullable = nullable
        self.defaultValue = defaultValue
        self.rules = rules
    }
}

/// The rules for a column's values in addition to their type.
///
/// Only ``isRequired`` rejects null.
public struct ColumnRules: Hashable, Sendable {
    /// Whether a value is required; null, an empty string, and empty binary data are rejected.
    public var isRequired: Bool
    /// The maximum number of Unicode scalars of a string, or of bytes of binary data.
    public var maxLength: Int?
    /// The minimum value of a number, instant, day or time of day.
    public var min: Value?
    /// The maximum value of a number, instant, day or time of day.
    public var max: Value?
    /// A regular expression that the whole string must match.
    public var pattern: String?

    /// Creates rules; by default, there are none.
    public init(
        maxLength: Int? = nil,
        min: Value? = nil,
        max: Value? = nil,
        pattern: String? = nil,
        required: Bool = false
    ) {
        isRequired = required
        self.maxLength = maxLength
        self.min = min
        self.max = max
        self.pattern = pattern
    }
}

/// The columns of a table, without the system columns.
public struct TableSchema: Hashable, Sendable {
    /// The table's name on the wire.
    public var name: String
    /// The columns, without `id`, `createdAt`, `updatedAt`, `version`, and `deleted`.
    public var columns: [ColumnDefinition]
    /// The rules that involve more than one column or more than one row.
    public var rules = TableRules()
    /// The former names of renamed columns, each with its current name.
    public var aliases: [String: String] = [:]
    /// The indexes that a device's store creates, each as a list of column names.
    public var indexes: [[String]] = []
    /// The indexes that a device's store creates for localized orders.
    package var orderIndexes: [TableOrderIndex] = []
    /// The search index that a device's store creates; nil for none.
    public var search: TableSearch?
    /// The references to rows of other tables, as a device knows them; a server has its references
    /// in the table definition.
    public var references: [TableReference] = []
    /// The type of the key column `id`; only a local store's own tables have keys that are not
    /// strings.
    public var key = ColumnType.string
    /// Whether all rows of the table stay on the device; only a client has such tables.
    public var isLocalOnly = false
    /// The columns whose values stay on the device; only a client has such columns.
    public var localColumns: Set<String> = []
    /// Whether the table has the system columns in addition to `id`.
    public var hasSystemColumns = true

    /// Creates a table; ignores system columns in `columns`.
    public init(name: String, columns: [ColumnDefinition]) {
        self.name = name
        self.columns = columns.filter { !SystemColumn.names.contains($0.name) }
    }

    /// Creates a table of a local store that is not synchronized; its only columns are `id` and
    /// these.
    package init(local name: String, key: ColumnType, columns: [ColumnDefinition]) {
        self.name = name
        self.columns = columns
        self.key = key
        hasSystemColumns = false
    }

    /// The system columns that the table has, `id` first.
    package var systemColumns: [ColumnDefinition] {
        hasSystemColumns
            ? SystemColumn.definitions : [ColumnDefinition(SystemColumn.id, key, nullable: false)]
    }

    /// Returns the column with exactly this name, including system columns.
    package func column(named name: String) -> ColumnDefinition? {
        columns.first { $0.name == name } ?? systemColumns.first { $0.name == name }
    }

    /// Returns the column with this name in any letter case; prefers exact matches, and tries
    /// former names last.
    package func column(matching name: String) -> ColumnDefinition? {
        if let exact = column(named: name) { return exact }
        let lowered = name.lowercased()
        let found = (columns + systemColumns).first { $0.name.lowercased() == lowered }
        if found != nil || aliases.isEmpty { return found }
        return aliases.first { $0.key.lowercased() == lowered }
            .flatMap { alias in columns.first { $0.name == alias.value } }
    }
}

/// The columns that every table has.
public enum SystemColumn {
    /// The key: 1 to 255 Unicode scalars.
    public static let id = "id"
    /// When the server first stored the row.
    public static let createdAt = "createdAt"
    /// When the server last stored the row; strictly increasing per table in commit order.
    public static let updatedAt = "updatedAt"
    /// An opaque string that changes with each write.
    public static let version = "version"
    /// Whether the row is a tombstone.
    public static let deleted = "deleted"

    /// The names of all system columns.
    public static let names: Set<String> = [id, createdAt, updatedAt, version, deleted]

    package static let definitions: [ColumnDefinition] = [
        ColumnDefinition(id, .string, nullable: false),
        ColumnDefinition(createdAt, .dateTime),
        ColumnDefinition(updatedAt, .dateTime),
        ColumnDefinition(version, .string),
        ColumnDefinition(deleted, .boolean, nullable: false, default: .bool(false)),
    ]
}
