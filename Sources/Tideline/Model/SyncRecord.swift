// SyncRecord: the requirements for a model, and the columns that it may declare by hand.

public import TidelineCore

/// A typed record of a synchronized table.
///
/// The library finds the columns by calling `init(from:)`, so nothing needs to be declared:
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
/// A column is named after the coding key of its property. The properties `createdAt`, `updatedAt` (`Date?`),
/// `version` (`String?`) and `deleted` (`Bool`) are the system properties and may be left out. Names that begin with
/// `__` are reserved.
///
/// With `-default-isolation MainActor`, write `nonisolated` before a struct or an enum that a `Hashable` record
/// stores and that is declared outside of the record's braces. Without it, the compiler rejects the record.
public protocol SyncRecord: Codable, Sendable, Identifiable where ID == String {
    /// The table's name on the wire. By default, this is the name of the type.
    static var tableName: String { get }

    /// A record with the default of each property, which stands in for missing values of a row.
    ///
    /// `Codable` ignores the default after `=` in a declaration, so the library needs a record that was created with
    /// these defaults. If every property has a default, the type has an `init()`, and you need not write anything.
    /// Otherwise write:
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
    /// The values of the record's id, system properties and optional properties do not matter. A property that
    /// was added to a table with rows needs a default; without one, opening the store throws ``SyncError`` with
    /// code `defaultRequired`.
    static var defaults: Self { get throws }

    /// Creates a record with the default of each property.
    ///
    /// Types without such an initializer need not add one.
    ///
    /// - Throws: The error that prevents the type from having such a record.
    init() throws

    /// The columns declared by hand. By default, there are none.
    ///
    /// Declare a column if it cannot be found automatically; the declaration replaces the column that was found. If
    /// `init(from:)` rejects an empty string or a zero, also declare the columns that it decodes after that property.
    /// See ``RecordColumn``.
    static var columns: [RecordColumn<Self>] { get }

    /// The indexes of the table on the device, each a list of properties. By default, there are none.
    ///
    /// Without an index, a filter or an order by a property reads the whole table. Each index makes every change to a
    /// row more expensive.
    ///
    /// ```swift
    /// static let indexes: [[PropertyPath<TodoItem>]] = [[\.complete, \.text]]
    /// ```
    static var indexes: [[PropertyPath<Self>]] { get }

    /// The indexes of the table on the device for queries that are sorted with `.localized`. By default, there are
    /// none.
    ///
    /// ```swift
    /// static let localizedIndexes = [LocalizedIndex(\TodoItem.text)]
    /// ```
    ///
    /// See <doc:QueryingAndWatching>.
    static var localizedIndexes: [LocalizedIndex<Self>] { get }

    /// The properties whose words can be searched for on the device. By default, there are none.
    ///
    /// ```swift
    /// static let search = SearchIndex(\TodoItem.text)
    /// ```
    ///
    /// See <doc:Search>.
    static var search: SearchIndex<Self> { get }

    /// The properties whose values are ids of rows of other tables. By default, there are none.
    ///
    /// ```swift
    /// static let references = [Reference(\Job.customerID, to: Customer.self, onDelete: .cascade)]
    /// ```
    ///
    /// See <doc:Relations>.
    static var references: [Reference<Self>] { get }

    /// The rules for values, in addition to their types. By default, there are none.
    ///
    /// ```swift
    /// static let rules: [Rule<TodoItem>] = [.required(\.text), .maxLength(\.text, 200)]
    /// ```
    ///
    /// See <doc:Rules>.
    static var rules: [Rule<Self>] { get }

    /// Whether the table stays on the device. By default, it is synchronized.
    ///
    /// Its records can be queried, observed and changed like those of any other table, and are never sent.
    ///
    /// ```swift
    /// static let isLocalOnly = true
    /// ```
    static var isLocalOnly: Bool { get }

    /// The properties of a synchronized table that stay on the device. By default, there are none.
    ///
    /// They are never sent, and keep their values when the server's row replaces the local row.
    ///
    /// ```swift
    /// static let localColumns: [PropertyPath<TodoItem>] = [\.complete]
    /// ```
    ///
    /// See <doc:KeepingAppAndServerInStep>.
    static var localColumns: [PropertyPath<Self>] { get }
}

extension SyncRecord {
    /// Returns a new id for a record.
    ///
    /// The id is a lowercase UUID of version 7 (RFC 9562, 5.7): it begins with the time, so that records that are
    /// created in succession are adjacent in the index of ids. On Linux it also costs less than a `UUID()`, which
    /// matters because the default of a property is computed again whenever a record is decoded.
    ///
    /// ```swift
    /// struct Note: SyncRecord {
    ///     var id = Self.newID()
    ///     var text = ""
    /// }
    /// ```
    public static func newID() -> String { SyncEnvironment.live.makeID() }

    /// The name of the type, without the types that enclose it.
    public static var tableName: String { String(describing: Self.self) }

    /// The record that `init()` creates.
    public static var defaults: Self { get throws { try Self() } }

    /// Always throws, because the type has no record with the default of each property.
    ///
    /// - Throws: An error that the library handles.
    public init() throws { throw NoDefaults() }

    /// No declared columns: all columns are found automatically.
    public static var columns: [RecordColumn<Self>] { [] }

    /// No indexes.
    public static var indexes: [[PropertyPath<Self>]] { [] }

    /// No localized indexes.
    public static var localizedIndexes: [LocalizedIndex<Self>] { [] }

    /// No search index.
    public static var search: SearchIndex<Self> { .none }

    /// No references.
    public static var references: [Reference<Self>] { [] }

    /// No rules.
    public static var rules: [Rule<Self>] { [] }

    /// The table is synchronized.
    public static var isLocalOnly: Bool { false }

    /// No local columns.
    public static var localColumns: [PropertyPath<Self>] { [] }
}

/// An error for a record type that has no `init()` and declares no `defaults`.
struct NoDefaults: Error {}

/// A key path of a stored property of a model, for declarations such as ``SyncRecord/indexes``.
///
/// ```swift
/// static let localColumns: [PropertyPath<TodoItem>] = [\.complete]
/// ```
///
/// If a path does not lead to a stored property, opening the store throws ``SyncError`` with code
/// `invalidModel` or `unsupportedQuery`.
public typealias PropertyPath<Record> = any PartialKeyPath<Record> & Sendable

/// A column that a model declares by hand.
///
/// ```swift
/// static var columns: [RecordColumn<TodoItem>] {
///     [RecordColumn(\.priority, "priority", .string, nullable: false, default: "low")]
/// }
/// ```
public struct RecordColumn<Record>: Sendable {
    package let path: PropertyPath<Record>

    /// The column's name, type, nullability and default.
    public let definition: ColumnDefinition

    /// Declares the column of a property; `name` is the property's coding key.
    public init(
        _ path: PropertyPath<Record>,
        _ name: String,
        _ type: ColumnType,
        nullable: Bool = true,
        default defaultValue: Value? = nil
    ) {
        self.path = path
        definition = ColumnDefinition(name, type, nullable: nullable, default: defaultValue)
    }
}
