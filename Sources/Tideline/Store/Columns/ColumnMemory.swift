// ColumnMemory: the columns of a table, stored as a row of the configuration, because only the
// model that wrote a cell knows the cell's type.

import Foundation
import TidelineCore
import TidelineSQLite

/// The columns that models declared for one table, and the conversions from their cells to values.
struct ColumnMemory {
    /// The conversion from cells to values for each column, by column name.
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

    /// Returns the conversion from a column's cells to values, as the model that last opened the
    /// file declared it.
    ///
    /// Returns nil if no model has declared the column.
    func form(of name: String) -> CellForm? {
        forms[name] ?? forms.first { $0.key.lowercased() == name.lowercased() }?.value
    }

    /// Returns whether a column's cells have this type; true if the type is not known.
    func holds(_ column: ColumnDefinition) -> Bool {
        form(of: column.name).map { $0 == CellForm(column.type) } ?? true
    }

    /// Returns the columns that other models have added to the table; `known` contains the columns
    /// in the file.
    func others(than table: SQLiteTable, _ known: [String: String]) -> [ColumnDefinition] {
        let own = Set(table.columns.map { $0.name.lowercased() })
        return forms.sorted { $0.key < $1.key }.compactMap { name, form in
            guard !own.contains(name.lowercased()),
                let storage = known[name.lowercased()].flatMap(StorageClass.init(rawValue:))
            else { return nil }
            return ColumnDefinition(name, form.columnType(in: storage))
        }
    }

    /// Stores the columns of the model if they differ from the stored ones.
    static func keep(_ table: SQLiteTable, in database: Database) throws {
        guard table.hasExtra, try canBeKept(in: database) else { return }
        var memory = try ColumnMemory(of: table, in: database)
        var forms = memory.forms
        for column in table.schema.columns {
            // A column keeps the name that the most recent model gave it.
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

    /// Stores the columns of a file from an older client version as required columns; see
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

    /// Returns whether the file has the configuration table; a store that no client has used does
    /// not have one.
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

    /// The key type of this configuration row; it follows the key types of pulls.
    private static let keyType = 13

    /// The key type of the configuration rows that RequiredDefaults stores.
    static let requiredKeyType = 14
}

extension CellForm {
    /// Returns the column type for cells of this form in a column with the given storage class.
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
