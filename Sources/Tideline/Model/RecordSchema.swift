// RecordSchema: the columns of a model, found once for each type.

import Synchronization
package import TidelineCore

/// The columns of a model.
package final class RecordSchema: Sendable {
    /// The table's name and columns, without the system columns.
    package let table: TableSchema

    /// The names of the system columns for which the model has a property, except `id`.
    package let systemProperties: Set<String>

    /// All columns of the model, including system columns, in the order in which it decodes them.
    package let columns: [ColumnDefinition]

    /// The names of ``columns``, shared by all rows made from records.
    package let layout: RowLayout

    /// The values of properties whose columns have neither a value nor a declared default, by column.
    let zeros: [String: Value]

    /// The columns whose properties are not optional.
    let neverNil: Set<String>

    /// The values in the model's record of defaults, by column; see ``SyncRecord/defaults``.
    let ownDefaults: [String: Value]

    /// The values of optional properties in the model's record of defaults, by column.
    ///
    /// For these properties, a column without a value means nil, so the defaults appear only in the
    /// schema document.
    let optionalDefaults: [String: Value]

    private let columnsByProperty: [String: String]
    private let declaredPaths: [(path: any AnyKeyPath & Sendable, column: String)]

    /// The positions of the columns in rows of the layout that was read last.
    let recentSlots = Mutex<RowSlots?>(nil)

    private static let known = Mutex<[ObjectIdentifier: RecordSchema]>([:])

    /// Returns the columns of a model type.
    ///
    /// The first call determines them; later calls return the cached result.
    ///
    /// - Throws: ``SyncError`` with code `invalidModel`, whose message says what to change in the model.
    package static func of(_ type: any SyncRecord.Type) throws -> RecordSchema {
        let key = ObjectIdentifier(type)
        if let schema = known.withLock({ $0[key] }) { return schema }
        let schema = try probe(type)
        known.withLock { $0[key] = schema }
        return schema
    }

    private static func probe<Record: SyncRecord>(_ type: Record.Type) throws -> RecordSchema {
        let schema = try RecordSchema(type)
        let defaults = schema.defaults(of: type)
        return defaults.isEmpty ? schema : RecordSchema(schema, defaults: defaults)
    }

    /// Returns the values of the model's record of defaults.
    ///
    /// A value that differs each time, such as a new id or `Date()`, is not a default.
    private func defaults<Record: SyncRecord>(of type: Record.Type) -> [String: Value] {
        var moment = PresentMoment()
        guard let one = try? RowWriter.row(of: Record.defaults, self) else { return [:] }
        moment.close()
        if columns.contains(where: { one[$0.name].map(PresentMoment.maySet) ?? false }) {
            PresentMoment.pass()
        }
        guard let two = try? RowWriter.row(of: Record.defaults, self) else { return [:] }
        var defaults: [String: Value] = [:]
        for name in columns.map(\.name) where !SystemColumn.names.contains(name) {
            guard let value = one[name], !value.isNull, value == two[name] else { continue }
            if !moment.contains(value) { defaults[name] = value }
        }
        return defaults
    }

    private init(_ schema: RecordSchema, defaults: [String: Value]) {
        table = schema.table
        systemProperties = schema.systemProperties
        columns = schema.columns
        layout = schema.layout
        zeros = schema.zeros
        neverNil = schema.neverNil
        let neverNil = schema.neverNil
        ownDefaults = defaults.filter { neverNil.contains($0.key) }
        optionalDefaults = defaults.filter { !neverNil.contains($0.key) }
        columnsByProperty = schema.columnsByProperty
        declaredPaths = schema.declaredPaths
    }

    private init<Record: SyncRecord>(_ type: Record.Type) throws {
        let name = "\(type)"
        let declared = Record.columns
        let found = try Self.find(type, declared: declared.map(\.definition))
        try Self.check(found, model: name)
        var columns = found.map(\.definition)
        layout = RowLayout(columns.map(\.name))
        ownDefaults = [:]
        optionalDefaults = [:]
        var zeros: [String: Value] = [:]
        for column in found { zeros[column.definition.name] = column.zero }
        self.zeros = zeros
        neverNil = Set(found.filter { !$0.mayBeNil }.map(\.definition.name))
        systemProperties = SystemColumn.names
            .intersection(columns.map(\.name))
            .subtracting([SystemColumn.id])
        columnsByProperty = Dictionary(
            found.map { ($0.property, $0.definition.name) },
            uniquingKeysWith: { first, _ in first }
        )
        declaredPaths = declared.map { (path: $0.path, column: $0.definition.name) }
        let places = PropertyColumns(declaredPaths, columnsByProperty, table: Record.tableName)
        var table = TableSchema(name: Record.tableName, columns: columns)
        table.indexes = try Record.indexes.map { try $0.map { try places.column(for: $0) } }
        table.orderIndexes = try Record.localizedIndexes.map { index in
            try index.table(model: name, table) { try places.column(for: $0) }
        }
        table.search = try Record.search.table(model: name, table) { try places.column(for: $0) }
        table.references = try Record.references.tableReferences(model: name, table) {
            try places.column(for: $0)
        }
        try DeclaredRules(rules: Record.rules, model: name) { try places.column(for: $0) }
            .apply(to: &table)
        let declaredNames = Set(declared.map(\.definition.name))
        for column in found where !declaredNames.contains(column.definition.name) {
            if let members = column.content.flatMap({ EnumerationMembers.of($0) }) {
                table.order(column.definition.name, by: members)
            }
        }
        let types = Dictionary(
            table.columns.map { ($0.name, $0.type) },
            uniquingKeysWith: { first, _ in first }
        )
        for place in columns.indices {
            columns[place].type = types[columns[place].name] ?? columns[place].type
        }
        self.columns = columns
        try table.keep(
            Record.localColumns.map { try places.column(for: $0) },
            isLocalOnly: Record.isLocalOnly,
            model: name
        )
        let localTables = Record.references.localTables()
        if let fault = table.referenceFault(localTables: localTables) {
            throw SyncError.invalidModel(name, fault)
        }
        self.table = table
    }

    private static func find<Record: SyncRecord>(
        _ type: Record.Type,
        declared: [ColumnDefinition]
    ) throws -> [SchemaProbe.Column] {
        let byName = Dictionary(declared.map { ($0.name, $0) }, uniquingKeysWith: { $1 })
        let probe = SchemaProbe(declared: byName)
        do {
            _ = try Record(from: probe)
            return probe.columns
        } catch {
            // If columns are declared, the initializer may reject placeholders and stop early.
            guard declared.isEmpty else {
                let names = Set(probe.columns.map(\.definition.name))
                return probe.columns
                    + declared.filter { !names.contains($0.name) }.map {
                        SchemaProbe.Column(
                            definition: $0,
                            property: $0.name,
                            mayBeNil: $0.isNullable
                        )
                    }
            }
            throw explain(error, model: "\(type)", after: probe.columns.last?.property)
        }
    }

    private static func explain(
        _ error: any Error,
        model: String,
        after property: String?
    ) -> SyncError {
        if let failure = error as? SchemaProbe.Failure {
            return .noPlaceholder(model, property: failure.property, type: failure.type)
        }
        let place = property.map { "after property '\($0)'" } ?? "before the first property"
        var result = SyncError.invalidModel(
            model,
            """
            its init(from:) rejected a placeholder \(place). Accept empty strings and zeros there, \
            or declare 'static var columns'.
            """
        )
        result.cause = error
        return result
    }

    private static func check(_ columns: [SchemaProbe.Column], model: String) throws {
        var seen: Set<String> = []
        for column in columns {
            let name = column.definition.name
            if name.hasPrefix("__") || column.property.hasPrefix("__") {
                throw SyncError.invalidModel(
                    model,
                    "names that begin with '__' are reserved. Rename property '\(column.property)'."
                )
            }
            guard seen.insert(name.lowercased()).inserted else {
                throw SyncError.invalidModel(
                    model,
                    "two columns are named '\(name)', ignoring case. Rename one of them."
                )
            }
            let system = SystemColumn.definitions.first { $0.name == name }
            if let system, system.type != column.definition.type {
                throw SyncError.invalidModel(
                    model,
                    """
                    '\(name)' is a system column of type \(system.type.name). Change the \
                    property to that type, or rename it.
                    """
                )
            }
        }
        guard columns.contains(where: { $0.definition.name == SystemColumn.id }) else {
            throw SyncError.invalidModel(
                model,
                "it has no column 'id'. Add a stored property 'id' with the coding key 'id'."
            )
        }
    }
}

extension RecordSchema {
    /// Returns the property of a column.
    func property(ofColumn column: String) -> String {
        columnsByProperty.first { $0.value == column }?.key ?? column
    }

    /// Returns the column of a stored property.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for any other key path.
    package func column(for path: AnyKeyPath) throws -> String {
        try PropertyColumns(declaredPaths, columnsByProperty, table: table.name).column(for: path)
    }
}

extension RecordSchema {
    /// Returns the sort key of a property, or of a property of a nested value.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for any other key path, and for a type without an order.
    static func sortKey<Record: SyncRecord>(
        for path: PartialKeyPath<Record>
    ) throws -> QueryExpression {
        let schema = try RecordSchema.of(Record.self)
        let properties = KeyPathNames.properties(of: path)
        guard properties.count > 1, let column = schema.columnsByProperty[properties[0]] else {
            return QueryExpression(.field(try schema.column(for: path)))
        }
        let names = try NestedKeys.names(
            properties[1...],
            of: properties[0],
            in: Record.self,
            path: path
        )
        let member = QueryExpression(.member(QueryExpression(.field(column)), names))
        return try member.sortKey(as: type(of: path).valueType)
    }
}

/// The columns of the properties of a model.
private struct PropertyColumns {
    private let declared: [(path: any AnyKeyPath & Sendable, column: String)]
    private let byProperty: [String: String]
    private let table: String

    init(
        _ declared: [(path: any AnyKeyPath & Sendable, column: String)],
        _ byProperty: [String: String],
        table: String
    ) {
        (self.declared, self.byProperty, self.table) = (declared, byProperty, table)
    }

    func column(for path: AnyKeyPath) throws -> String {
        if let declared = declared.first(where: { $0.path == path }) { return declared.column }
        let property = try KeyPathNames.property(of: path, table: table)
        guard let column = byProperty[property] else {
            throw SyncError.unknownColumn(
                keyPath: path.debugDescription,
                table: table,
                reason: "is not a stored property with a column"
            )
        }
        return column
    }
}

extension TableSchema {
    /// Turns a string column into an enumeration, which is ordered by position as on a server, unless a rule or an
    /// index needs the column as text.
    fileprivate mutating func order(_ name: String, by members: [String]) {
        guard let place = columns.firstIndex(where: { $0.name == name }) else { return }
        let column = columns[place]
        let isText =
            column.rules.maxLength != nil || column.rules.pattern != nil
            || search?.columns.contains(name) == true
            || orderIndexes.contains { $0.columns.last == name }
        guard column.type == .string, !isText, Set(members).count == members.count else { return }
        columns[place].type = .enumeration(members)
    }
}
