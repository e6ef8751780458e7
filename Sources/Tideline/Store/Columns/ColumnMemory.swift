// ColumnMemory: the columns of a table as a row of the configuration. Only the model that wrote a cell knows its type.

import Foundation
import TidelineCore
import TidelineSQLite

/// The columns that models gave one table, and how their cells are converted to values.
struct ColumnMemory {
    /// How the cells of each column are converted to values, by column name.
    private(set) var forms: [String: CellForm] = [:]
    private let id: String

    init(of table: SQLiteTable, in database: Database) throws {
        id = "columns|" + table.schema.name.lowercased()
        guard try Self.canBeKept(in: database) else { return }
        let statement = try database.prepare(Self.select)
        defer { statement.reset() }
        try statement.bind([.text(id)])
        guard try statement.step() else { return }
        forms =
            (try? JSONDecoder().decode(
                [String: CellForm].self,
                from: Data(statement.text(0).utf8)
            )) ?? [:]
    }

    /// Returns how the cells of a column are converted to values, according to the model that last opened the
    /// file.
    ///
    /// Nil if no model has described the column.
    func form(of name: String) -> CellForm? {
        forms[name] ?? forms.first { $0.key.lowercased() == name.lowercased() }?.value
    }

    /// Returns whether the cells of a column have this type; true if that is not known.
    func holds(_ column: ColumnDefinition) -> Bool {
        form(of: column.name).map { $0 == CellForm(column.type) } ?? true
    }

    /// Returns the columns that other models have added to the table; `known` are the columns in the file.
    func others(than table: SQLiteTable, _ known: [String: String]) -> [ColumnDefinition] {
        let own = Set(table.columns.map { $0.name.lowercased() })
        return forms.sorted { $0.key < $1.key }.compactMap { name, form in
            guard !own.contains(name.lowercased()),
                let storage = known[name.lowercased()].flatMap(StorageClass.init(rawValue:))
            else { return nil }
            return ColumnDefinition(name, form.columnType(in: storage))
        }
    }

    /// Stores the columns of the model, if they differ from the stored ones.
    static func keep(_ table: SQLiteTable, in database: Database) throws {
        guard table.hasExtra, try canBeKept(in: database) else { return }
        var memory = try ColumnMemory(of: table, in: database)
        var forms = memory.forms
        for column in table.schema.columns {
            // A column has the name that the last model gave it.
            for name in forms.keys where name.lowercased() == column.name.lowercased() {
                forms[name] = nil
            }
            forms[column.name] = CellForm(column.type)
        }
        guard forms != memory.forms else { return }
        memory.forms = forms
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        let text = String(decoding: try encoder.encode(forms), as: UTF8.self)
        try database.prepare(insert).run([.text(memory.id), .text(text)])
    }

    /// Stores the columns of a file from an older version of the client as required columns; see
    /// RequiredDefaults.
    static func keepRequired(_ table: SQLiteTable, in database: Database) throws {
        guard table.hasExtra, try canBeKept(in: database) else { return }
        let id = RequiredDefaults.id(table.schema.name)
        let statement = try database.prepare(select)
        defer { statement.reset() }
        try statement.bind([.text(id)])
        guard try !statement.step() else { return }
        let known = try ColumnMoves.columns(of: table, in: database)
        guard !known.isEmpty else { return }
        let names = RequiredDefaults.text(known.keys.sorted())
        try database.prepare(insertRequired).run([.text(id), .text(names)])
    }

    /// Returns whether the file has the configuration table; a store that no client has used does not.
    private static func canBeKept(in database: Database) throws -> Bool {
        let sql = "SELECT count(*) FROM sqlite_master WHERE name = '\(SystemTables.config)'"
        return try database.integer(sql) ?? 0 > 0
    }

    private static let select = "SELECT \"value\" FROM \"\(SystemTables.config)\" WHERE \"id\" = ?1"
    private static let insert = """
        INSERT OR REPLACE INTO "\(SystemTables.config)" ("id", "key", "keyType", "table", "value")
        VALUES (?1, '', \(keyType), '', ?2)
        """

    private static let insertRequired = """
        INSERT OR REPLACE INTO "\(SystemTables.config)" ("id", "key", "keyType", "table", "value")
        VALUES (?1, '', \(requiredKeyType), '', ?2)
        """

    /// The key type of this configuration; it follows the key types of pulls.
    private static let keyType = 13

    /// The key type of the configuration that RequiredDefaults stores.
    static let requiredKeyType = 14
}

extension CellForm {
    /// Returns the column type for cells of this form in a column of a storage class.
    fileprivate func columnType(in storage: StorageClass) -> ColumnType {
        switch self {
        case .boolean: .boolean
        case .instant: .dateTime
        case .number: .number
        case .decimal: .decimal
        case .json: .json
        case .plain:
            switch storage {
            case .text: .string
            case .integer: .integer
            case .real: .number
            case .blob: .binary
            }
        }
    }
}
