// ColumnMemory: the columns that models gave a table of the store, as a row of the configuration: what
// a cell of a column means is known only to the model that wrote it.

import Foundation
import TidelineCore
import TidelineSQLite

struct ColumnMemory {
    /// How the cells of each column become values, by its name.
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

    /// How the cells of a column become values, as the model says that opened the file last; nil where
    /// none has told.
    func form(of name: String) -> CellForm? {
        forms[name] ?? forms.first { $0.key.lowercased() == name.lowercased() }?.value
    }

    /// Whether the cells of a column are of this type, as far as is known.
    func holds(_ column: ColumnDefinition) -> Bool {
        form(of: column.name).map { $0 == CellForm(column.type) } ?? true
    }

    /// The columns of other models than that of the table; `known` are those in the file.
    func others(than table: SQLiteTable, _ known: [String: String]) -> [ColumnDefinition] {
        let own = Set(table.columns.map { $0.name.lowercased() })
        return forms.sorted { $0.key < $1.key }.compactMap { name, form in
            guard !own.contains(name.lowercased()),
                let storage = known[name.lowercased()].flatMap(StorageClass.init(rawValue:))
            else { return nil }
            return ColumnDefinition(name, form.columnType(in: storage))
        }
    }

    /// Adds the columns of the model; writes what is different.
    static func keep(_ table: SQLiteTable, in database: Database) throws {
        guard table.hasExtra, try canBeKept(in: database) else { return }
        var memory = try ColumnMemory(of: table, in: database)
        var forms = memory.forms
        for column in table.schema.columns {
            // A column is called as the last model calls it.
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

    /// Remembers the columns of a file that an older version of the client made, as if its model had required
    /// them: see RequiredDefaults.
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

    /// A store that is not of a client has no configuration.
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

    /// Behind those of the pull.
    private static let keyType = 13

    /// The key type of the rows of RequiredDefaults.
    static let requiredKeyType = 14
}

extension CellForm {
    /// A type whose cells have this form in a column of that class.
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
