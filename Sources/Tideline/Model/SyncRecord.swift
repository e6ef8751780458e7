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

    /// A record with the default of each property: what a row without a value is read as.
    ///
    /// Codable does not use the value behind `=`. So the library asks for a record that was made with it. If
    /// every property has a default, the type has an `init()`, and nothing has to be written. Otherwise write:
    ///
    /// ```swift
    /// struct Item: SyncRecord {
    ///     var id = UUID().uuidString.lowercased()
    ///     var name: String
    ///     var isActive = true
    ///
    ///     static let defaults = Item(name: "")
    /// }
    /// ```
    ///
    /// Its id, its system properties and its optional properties do not count. A property that was added to a table
    /// with rows needs a default: else opening the store throws ``SyncError`` with code `defaultRequired`.
    static var defaults: Self { get throws }

    /// A record with the default of each property; types that have no such initializer need none.
    ///
    /// - Throws: Whatever keeps a type from having such a record.
    init() throws

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

    /// The record of `init()`.
    public static var defaults: Self { get throws { try Self() } }

    /// Always throws: the type has no record with the default of each property.
    ///
    /// - Throws: An error that the library handles.
    public init() throws { throw NoDefaults() }

    /// No declared columns: all are found.
    public static var columns: [RecordColumn<Self>] { [] }

    /// No indexes.
    public static var indexes: [[any PartialKeyPath<Self> & Sendable]] { [] }
}

/// A record type has no `init()` and declares no `defaults`.
struct NoDefaults: Error {}

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
