// SyncRecord: what a model promises, and the columns it may declare by hand.

public import TidelineCore

/// A typed record of a synchronised table.
///
/// The columns are found by asking `init(from:)`; nothing needs to be declared:
///
/// ```swift
/// struct TodoItem: SyncRecord {
///     var id = UUID().uuidString.lowercased()
///     var text: String
///     var complete = false
///     var updatedAt: Date?
/// }
/// ```
///
/// A column is named by its coding key. Properties `createdAt`, `updatedAt` (`Date?`), `version`
/// (`String?`) and `deleted` (`Bool`) are the system properties and may be left out. Names that
/// begin with `__` are reserved.
public protocol SyncRecord: Codable, Sendable, Identifiable where ID == String {
    /// The table's name on the wire: the name of the type unless the model says another.
    static var tableName: String { get }

    /// Columns declared by hand: none unless the model says some.
    ///
    /// Needed for properties whose columns cannot be found by themselves; a column declared here
    /// replaces the one that was found. Where `init(from:)` refuses empty texts or zeros, declare
    /// the columns that it asks for after that too. See ``RecordColumn``.
    static var columns: [RecordColumn<Self>] { get }

    /// Indexes of the table on the device, each by its properties: none unless the model says some.
    ///
    /// A filter or an order by a property reads the whole table without one. Each index makes every
    /// change of a row dearer.
    ///
    /// ```swift
    /// static let indexes: [[any PartialKeyPath<TodoItem> & Sendable]] = [[\.complete, \.text]]
    /// ```
    static var indexes: [[any PartialKeyPath<Self> & Sendable]] { get }
}

extension SyncRecord {
    /// The name of the type, without the types around it.
    public static var tableName: String { String(describing: Self.self) }

    /// No declared columns: all are found.
    public static var columns: [RecordColumn<Self>] { [] }

    /// No indexes.
    public static var indexes: [[any PartialKeyPath<Self> & Sendable]] { [] }
}

/// A column that a model declares by hand.
///
/// ```swift
/// static var columns: [RecordColumn<TodoItem>] {
///     [RecordColumn(\.priority, "priority", .string, nullable: false, default: "low")]
/// }
/// ```
public struct RecordColumn<Record>: Sendable {
    package let path: any PartialKeyPath<Record> & Sendable

    /// The column's name, type, nullability and default.
    public let definition: ColumnDefinition

    /// Declares the column of a property; `name` is the property's coding key.
    public init(
        _ path: any PartialKeyPath<Record> & Sendable,
        _ name: String,
        _ type: ColumnType,
        nullable: Bool = true,
        default defaultValue: Value? = nil
    ) {
        self.path = path
        definition = ColumnDefinition(name, type, nullable: nullable, default: defaultValue)
    }
}
