// RequiredDefaults: detects properties without a known default.
//
// `var isActive = true` compiles into a decoder that requires the column and does not know the
// default. If an app update adds such a property, it would be false in every older row. For each
// table, a row of the configuration therefore stores the names of the properties that the app has
// used to read rows.

import Foundation
import TidelineCore

/// A check that rejects a store whose rows lack a value for a property without a default.
struct RequiredDefaults: Sendable {
    /// A non-optional property.
    private struct Property: Sendable {
        var name: String
        var column: String
        /// Whether the model or the declared schema has a default for the property.
        var hasDefault: Bool
    }

    private struct Table: Sendable {
        var name: String
        /// The model's name; nil for a table of plain rows.
        var model: String?
        var properties: [Property]
    }

    private let tables: [Table]

    init(_ catalog: TableCatalog, models: [any SyncRecord.Type]) throws {
        var tables: [String: Table] = [:]
        for schema in catalog.schemas.values {
            let plain = schema.columns.map {
                Property(name: $0.name, column: $0.name, hasDefault: true)
            }
            tables[schema.name] = Table(name: schema.name, model: nil, properties: plain)
        }
        for type in models {
            let model = try RecordSchema.of(type)
            guard let declared = catalog.schema(model.table.name) else { continue }
            let defaults = model.defaults(declared: declared)
            let properties = zip(model.columns, defaults).compactMap { column, value -> Property? in
                guard model.neverNil.contains(column.name),
                    !SystemColumn.names.contains(column.name)
                else { return nil }
                return Property(
                    name: model.property(ofColumn: column.name),
                    column: column.name,
                    hasDefault: !value.isNull
                )
            }
            tables[declared.name] = Table(
                name: declared.name,
                model: "\(type)",
                properties: properties
            )
        }
        self.tables = tables.values.sorted {
            $0.name.utf8.lexicographicallyPrecedes($1.name.utf8)
        }
    }

    /// Throws if rows lack a value for a new property; otherwise, stores the properties of all
    /// tables.
    ///
    /// - Throws: ``SyncError`` with code `defaultRequired`.
    func check(_ store: any LocalStore) async throws {
        let changes: [Row] = try await store.read { try self.changes(in: $0) }
        guard !changes.isEmpty else { return }
        // An app can open its store even if the disk is full; the check then repeats the next time.
        try? await store.write { try $0.put(changes, in: SystemTables.config) }
    }

    private func changes(in store: any LocalStoreReader) throws -> [Row] {
        var changes: [Row] = []
        for table in tables {
            let id = Self.id(table.name)
            let text = try store.row(id: .string(id), in: SystemTables.config)?["value"]?.text
            var known = Self.names(text ?? "[]")
            let before = Set(known.map { $0.lowercased() })
            let new = table.properties.filter { !before.contains($0.column.lowercased()) }
            guard !new.isEmpty || text == nil else { continue }
            // A store without this configuration row has no older rows.
            if let model = table.model, text != nil {
                for property in new where !property.hasDefault {
                    guard try Self.isMissing(property.column, in: table.name, of: store) else {
                        continue
                    }
                    throw SyncError.defaultRequired(model, property.name, table: table.name)
                }
            }
            known += new.map(\.column)
            changes.append([
                "id": .string(id), "key": "",
                "keyType": .integer(Int64(ColumnMemory.requiredKeyType)),
                "table": "", "value": .string(Self.text(known)),
            ])
        }
        return changes
    }

    /// Returns whether any row lacks a value in a column.
    private static func isMissing(
        _ column: String,
        in table: String,
        of store: any LocalStoreReader
    ) throws -> Bool {
        var query = TableQuery(filter: .equal(column, .null))
        // A value that the column cannot store is stored elsewhere. The filter then finds null,
        // although the row has a value.
        query.limit = 100
        return try store.rows(query, in: table).contains { $0[column]?.isNull ?? true }
    }

    static func id(_ table: String) -> String { "required|" + table.lowercased() }

    static func text(_ names: [String]) -> String {
        let bytes = (try? JSONEncoder().encode(names)) ?? Data("[]".utf8)
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func names(_ text: String) -> [String] {
        (try? JSONDecoder().decode([String].self, from: Data(text.utf8))) ?? []
    }
}
