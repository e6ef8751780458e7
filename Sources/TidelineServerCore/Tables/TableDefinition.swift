// TableDefinition: a table as the configuration declares it. Table: the same, prepared for requests.

import Synchronization
public import TidelineCore

/// A table of the server, with its columns and rules.
public struct TableDefinition: Hashable, Sendable {
    /// The table's name and columns.
    public var schema: TableSchema
    /// Whether a delete leaves a tombstone, which other devices pull.
    public var softDelete: Bool
    /// The maximum number of rows of a page; nil for 50 (2.x callers) or 100 (other callers).
    public var pageSize: Int?
    /// The maximum value of `$top`; nil for 1000 (2.x callers) or 128000 (other callers).
    public var maxTop: Int?
    /// Additional indexes, each a list of columns.
    public var indexes: [[String]]
    /// The permissions for each operation.
    public var permissions: TablePermissions
    /// The column with the id of the user who created a row; other users cannot see the row.
    ///
    /// It is a string column, created if it is not declared. The server sets it, and callers cannot change it.
    public var owner: String?
    /// The rule for a write whose version is not the stored one.
    public var conflict: ConflictRule
    /// The number of days for which a tombstone is kept; nil for no limit.
    public var tombstoneDays: Int?
    /// The values that a tombstone keeps.
    public var tombstones: TombstoneRule
    /// Whether changes are recorded with user, row and columns, for `limits.auditDays`.
    public var audit: Bool
    /// The columns whose values are ids of rows of a table; at most one for each column.
    public var references: [TableReference]
    /// The former names of columns, with the names that they have now.
    ///
    /// Callers may use both names, and rows are sent with both.
    public var aliases: [String: String] {
        get { schema.aliases }
        set { schema.aliases = newValue }
    }
    /// The schema version of the table in a database whose tables other servers may change.
    package var form: Int64?
    /// The database's default expressions, for columns of an adopted table that are declared without a default.
    package var databaseDefaults: [String: String] = [:]
    /// The columns that foreign keys of the database check, even if they are not references.
    package var foreignKeyColumns: Set<String> = []

    /// Declares a table.
    public init(
        _ name: String,
        columns: [ColumnDefinition] = [],
        softDelete: Bool = true,
        pageSize: Int? = nil,
        maxTop: Int? = nil,
        indexes: [[String]] = [],
        permissions: TablePermissions = TablePermissions(),
        owner: String? = nil,
        conflict: ConflictRule = .reject,
        tombstoneDays: Int? = nil,
        tombstones: TombstoneRule = .full,
        audit: Bool = false,
        references: [TableReference] = [],
        rules: TableRules = TableRules(),
        aliases: [String: String] = [:]
    ) {
        schema = TableSchema(name: name, columns: columns)
        schema.rules = rules
        schema.aliases = aliases
        self.softDelete = softDelete
        self.pageSize = pageSize
        self.maxTop = maxTop
        self.indexes = indexes
        self.permissions = permissions
        self.owner = owner
        self.conflict = conflict
        self.tombstoneDays = tombstoneDays
        self.tombstones = tombstones
        self.audit = audit
        self.references = references
    }

    /// The name on the wire and in the database.
    public var name: String { schema.name }

    /// The columns of the unique index of each `unique` rule.
    ///
    /// Rows of another owner are invisible, and their values must not be revealed.
    package var uniqueIndexes: [[String]] {
        schema.rules.unique.map { columns in
            guard let owner, !columns.contains(owner) else { return columns }
            return [owner] + columns
        }
    }

    /// Returns whether a tombstone without values still has the value of this column: the owner, and
    /// a reference or foreign key that must not be null.
    package func keepsInTombstone(_ column: ColumnDefinition) -> Bool {
        if let owner, SchemaPlan.isSame(owner, column.name) { return true }
        guard !column.isNullable else { return false }
        return foreignKeyColumns.contains(column.name)
            || references.contains { SchemaPlan.isSame($0.column, column.name) }
    }
}

extension TableDefinition {
    /// Returns why `name` is not a valid name of a table or a column, as the end of a sentence; nil if it is
    /// valid.
    package static func nameFault(_ name: String) -> String? {
        let bytes = name.utf8
        guard (1...128).contains(bytes.count) else { return "it must have 1 to 128 characters" }
        for (index, byte) in bytes.enumerated() {
            let isLetter = ASCII.lower(byte) >= 0x61 && ASCII.lower(byte) <= 0x7A
            let isDigit = byte >= 0x30 && byte <= 0x39
            guard isLetter || byte == UInt8(ascii: "_") || isDigit && index > 0 else {
                return "it must begin with a letter or '_' and contain only letters, digits and '_'"
            }
        }
        let lowered = name.lowercased()
        if lowered.hasPrefix("__") { return "names that begin with '__' are reserved" }
        for prefix in ["tideline_", "sqlite_", "pg_"] where lowered.hasPrefix(prefix) {
            return "names that begin with '\(prefix)' are reserved"
        }
        return nil
    }

    /// Returns why `name` is not a valid name of a column, as the end of a sentence; nil if it is valid.
    package static func columnFault(_ name: String) -> String? {
        if let fault = nameFault(name) { return fault }
        guard databaseNames.contains(name.lowercased()) else { return nil }
        return "'\(name)' is reserved by databases"
    }

    /// Returns why a write cannot add a column named `name`, as the end of a sentence; nil if it can.
    package static func newColumnFault(_ name: String) -> String? {
        if let fault = columnFault(name) { return fault }
        guard queryWords.contains(name.lowercased()) else { return nil }
        return "'\(name)' is a reserved word of the query language (OData)"
    }

    /// Names that SQLite and PostgreSQL use in every table.
    private static let databaseNames: Set<String> = [
        "rowid", "_rowid_", "oid", "ctid", "xmin", "xmax", "cmin", "cmax", "tableoid",
    ]

    /// Words that are ambiguous with a column name in a filter or an order.
    private static let queryWords: Set<String> = [
        "null", "true", "false", "nan", "inf", "not", "and", "or", "eq", "ne", "gt", "ge", "lt",
        "le",
        "has", "in", "add", "sub", "mul", "div", "divby", "mod", "asc", "desc", "any", "all",
    ]
}

/// A table with the data that requests need.
///
/// It is immutable; a change of the schema replaces it.
package final class Table: Sendable {
    package let definition: TableDefinition
    /// The names of the columns as bytes, followed by those of the system columns.
    package let memberNames: [[UInt8]]
    /// The bytes `,"name":` for each column.
    let jsonNames: [[UInt8]]
    /// The index of the owner's column.
    package let ownerIndex: Int?
    /// The hooks of the table.
    package let hooks: TableHooks?
    /// The part of the table that already exists in the database.
    private let existing: Existing
    let pageSize = PageSize()
    /// The fingerprint; nil until it is computed.
    private let schemaFingerprint = Mutex<Fingerprint?>(nil)

    /// The part of a table that exists in the database.
    package enum Existing: Sendable {
        /// The whole table.
        case whole
        /// An earlier schema version with fewer columns.
        case part(Table)
        /// No part of the table.
        case nothing
    }

    /// The indexes of columns by their former names, in lower case.
    private let formerNames: [String: Int]
    /// The compiled rules of the columns and the rows.
    package let rules: RowRules
    /// The rules that concern several rows.
    package let uniqueRules: [UniqueRule]
    /// The columns whose default violates their own rules, so that the body of a new row must contain them.
    private let needed: [Int]

    package init(
        _ definition: TableDefinition,
        hooks: TableHooks? = nil,
        existing: Existing = .whole
    ) {
        self.definition = definition
        self.hooks = hooks
        self.existing = existing
        let columns = definition.schema.columns
        ownerIndex = columns.firstIndex { $0.name == definition.owner }
        let rules = RowRules(definition.schema)
        self.rules = rules
        formerNames = Dictionary(
            definition.aliases.compactMap { old, new in
                columns.firstIndex { $0.name == new }.map { (old.lowercased(), $0) }
            },
            uniquingKeysWith: { first, _ in first }
        )
        uniqueRules = zip(definition.schema.rules.unique, definition.uniqueIndexes).map { rule in
            let places = rule.1.compactMap { name in columns.firstIndex { $0.name == name } }
            return UniqueRule(columns: rule.0, places: places)
        }
        needed = columns.indices.filter { place in
            definition.databaseDefaults[columns[place].name] == nil
                && rules.check(place, columns[place].storedDefault) != nil
        }
        jsonNames = columns.map { column in
            var writer = JSONWriter()
            writer.byte(",")
            writer.string(column.name)
            writer.byte(":")
            return writer.bytes
        }
        memberNames =
            definition.schema.columns.map { Array($0.name.utf8) }
            + SystemColumn.definitions.map { Array($0.name.utf8) }
    }

    package var name: String { definition.name }
    package var columns: [ColumnDefinition] { definition.schema.columns }

    /// A hash of the columns.
    ///
    /// If it changes, the rows on devices may have other columns.
    var fingerprint: Fingerprint {
        schemaFingerprint.withLock { kept in
            if let kept { return kept }
            let columns = columns.map { "\($0.name) \($0.type)" }.sorted()
            let created = Fingerprint([name.lowercased(), definition.owner ?? ""] + columns)
            kept = created
            return created
        }
    }

    /// Whether the table or some of its columns must be created before a write.
    package var needsGrowth: Bool { if case .whole = existing { false } else { true } }

    /// The table as it is in the database; nil if it does not exist there.
    package var storedForm: Table? {
        switch existing {
        case .whole: self
        case .part(let table): table
        case .nothing: nil
        }
    }

    /// Reads the next value as a value of a column, and checks the column's rules.
    func read(_ place: Int, _ reader: inout JSONReader) throws -> SQLValue {
        let columns = definition.schema.columns
        let value = try columns[place].read(&reader, acceptsZero: !columns[place].isNullable)
        try check(place, value)
        return value
    }

    /// Rejects a value that the rules of a column do not allow.
    func check(_ place: Int, _ value: SQLValue) throws(ServerError) {
        if let violation = rules.check(place, value) { throw ServerError(violation) }
    }

    /// Rejects a new row, or one that replaces a row, if it lacks a column without a valid default.
    func checkAbsent(_ values: [SQLValue?]) throws {
        for place in needed where values[place] == nil {
            try check(place, columns[place].storedDefault)
        }
    }

    /// Returns the column at an index, or for an index after the columns, the system column.
    package func member(_ place: Int) -> ColumnDefinition {
        place < columns.count ? columns[place] : SystemColumn.definitions[place - columns.count]
    }

    /// Returns the index of a member by its exact name.
    package func place(of name: String) -> Int? {
        memberNames.firstIndex { name.utf8.elementsEqual($0) }
    }

    /// Returns the index of a member in the list of the columns and the system columns that follow them.
    func member(named name: String) -> Int? {
        if let exact = place(of: name) { return exact }
        let lowered = name.lowercased()
        let found = memberNames.firstIndex {
            String(decoding: $0, as: UTF8.self).lowercased() == lowered
        }
        return found ?? formerNames[lowered]
    }

    /// Whether columns have former names.
    var hasFormerNames: Bool { !formerNames.isEmpty }

    /// Whether a name is the former name of a column.
    func isFormer(_ name: String) -> Bool { formerNames[name.lowercased()] != nil }

    /// Returns the index of a member in the list of the columns and the system columns that follow them.
    func member(_ name: JSONReader.Span, in reader: JSONReader, hint: Int) -> Int? {
        if hint < memberNames.count, reader.matches(name, memberNames[hint]) { return hint }
        if let exact = memberNames.firstIndex(where: { reader.matches(name, $0) }) { return exact }
        return member(named: reader.text(name))
    }
}
