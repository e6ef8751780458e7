// SQLiteStoreSchema: creates and checks the tables of a store.

import Foundation
import TidelineCore
import TidelineSQLite

/// A table of the store, with its prepared SQL.
struct SQLiteTable: Sendable {
    let schema: TableSchema
    /// The columns of the model, `id` first, without the column for unknown members.
    let columns: [ColumnDefinition]
    /// The columns that other models added, which follow this model's columns.
    ///
    /// This model does not declare these columns.
    let others: [ColumnDefinition]
    let layout: RowLayout
    let insert: String
    let selectList: String
    let selectByID: String
    let deleteByID: String
    let setMaskByID: String
    let dropChecksumByID: String
    let hasExtra: Bool
    /// The kinds of values that each column returns unchanged.
    let cells: [CellKind]
    /// The conversion from cells to values for each column.
    let forms: [CellForm]
    /// The schema for members that are stored outside their columns.
    ///
    /// A value that a numeric column cannot store is not converted to a number.
    let extraSchema: TableSchema
    /// The index of the membership mask, which records the queries that contain a row.
    let mask: Int?
    /// The columns in a row's checksum, in order; nil for the mask.
    let checked: [RowChecksum.Column?]
    /// The column names of a row without the mask.
    let unmaskedLayout: RowLayout
    /// The column names of a row without the mask, with the unknown members as a single JSON
    /// object.
    let recordLayout: RowLayout
    /// The name of each column as a JSON member name in UTF-8; empty if it has characters that JSON
    /// may escape.
    let memberNames: [[UInt8]]
    /// The search index in the file; nil if the model declares none or the file has a different
    /// one.
    var search: SearchTables?
    /// The localized indexes; nil if the model declares none or the file has different ones.
    var order: OrderTables?

    init(_ schema: TableSchema, others: [ColumnDefinition] = []) {
        self.schema = schema
        self.others = others
        hasExtra = schema.hasSystemColumns
        columns =
            schema.systemColumns.filter { $0.name != SystemColumn.deleted } + schema.columns
        layout = RowLayout(columns.map(\.name))
        let all = columns + others
        // System columns and the queue's tables are read without checking the types of values.
        cells = all.map {
            schema.hasSystemColumns && !SystemColumn.names.contains($0.name)
                ? CellKind($0.type) : .any
        }
        forms = all.map { CellForm($0.type) }
        var extraSchema = schema
        for index in extraSchema.columns.indices
        where [.number, .decimal].contains(extraSchema.columns[index].type) {
            extraSchema.columns[index].type = .string
        }
        self.extraSchema = extraSchema
        mask = columns.firstIndex { $0.name == MembershipMask.name }
        unmaskedLayout = RowLayout(columns.map(\.name).filter { $0 != MembershipMask.name })
        recordLayout = RowLayout(unmaskedLayout.names + [UnknownMembers.name])
        memberNames = columns.map { UnknownMembers.memberName($0.name) }
        checked = all.map {
            $0.name == MembershipMask.name
                ? nil : RowChecksum.Column($0.name, StorageClass($0.type))
        }
        var names = all.map { Identifier($0.name).quoted }
        if hasExtra { names.append(Self.extraColumn) }
        selectList = names.joined(separator: ", ")
        let table = Identifier(schema.name).quoted
        selectByID = "SELECT \(selectList) FROM \(table) WHERE \"id\" = ?1"
        deleteByID = "DELETE FROM \(table) WHERE \"id\" = ?1"
        setMaskByID = """
            UPDATE \(table) SET \(Identifier(MembershipMask.name).quoted) = ?2 WHERE "id" = ?1
            """
        dropChecksumByID = """
            UPDATE \(table) SET \(Identifier(Self.checksum).quoted) = NULL WHERE "id" = ?1
            """
        if hasExtra { names.append(Identifier(Self.checksum).quoted) }
        let placeholders = names.indices.map { "?\($0 + 1)" }.joined(separator: ", ")
        let list = names.joined(separator: ", ")
        let isCopied = schema.search != nil || !schema.orderIndexes.isEmpty
        guard isCopied, Database.hasUpsert else {
            insert = "INSERT OR REPLACE INTO \(table) (\(list)) VALUES (\(placeholders))"
            return
        }
        // The alternative, REPLACE, would give the row a new rowid, which identifies the row in the
        // search index, and all columns would count as changed.
        let changes = names.filter { $0 != "\"id\"" }.map { "\($0) = excluded.\($0)" }
        insert = """
            INSERT INTO \(table) (\(list)) VALUES (\(placeholders))
            ON CONFLICT ("id") DO UPDATE SET \(changes.joined(separator: ", "))
            """
    }

    /// Returns the columns with these names; nil if one of the values may be among the unknown
    /// members.
    func columns(named names: [String]) -> [ColumnDefinition]? {
        let isPlain = names.allSatisfy {
            !hasExtra || SystemColumn.names.contains($0) || $0 == MembershipMask.name
        }
        guard isPlain else { return nil }
        let found = names.compactMap { name in columns.first { $0.name == name } }
        return found.count == names.count && Set(names).count == names.count ? found : nil
    }

    /// Returns the name of a cell's column.
    func name(ofCell index: Int) -> String {
        index < columns.count ? columns[index].name : others[index - columns.count].name
    }

    /// The column for members that the schema does not contain, as a JSON object.
    static let extraColumn = "\"__extra\""

    /// The column for a row's checksum; null if the checksum could not be computed.
    static let checksum = "__checksum"

    static let extraChecked = RowChecksum.Column(UnknownMembers.name, .text)

    /// The positions of the unknown members and the checksum among the values of `insert`.
    var extraIndex: Int32 { Int32(cells.count + 1) }
    var checksumIndex: Int32 { Int32(cells.count + 2) }
}

/// The definition of the tables of a store file, with its format version and application ID.
enum SQLiteStoreSchema {
    /// The version in `PRAGMA user_version`; a file with a higher version is rejected.
    static let formatVersion: Int64 = 3

    /// The application ID that marks the file as a Tideline store: "TIDE".
    private static let applicationID: Int64 = 0x5449_4445

    /// Rejects a file that is not a store, or that is from a newer version, before anything is
    /// written to the file.
    ///
    /// Opening the file for writing would switch it to WAL mode, which is a change.
    static func check(_ path: String, _ key: DatabaseKey? = nil) throws {
        guard !path.isEmpty else { throw SyncError.emptyStorePath() }
        guard path != ":memory:" else { return }
        var isFolder: ObjCBool = false
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) else {
            return try checkFolder(path)
        }
        guard !isFolder.boolValue else { throw SyncError.storeIsFolder(path) }
        let database: Database
        do {
            // Reading a file in WAL mode creates files next to it. If there is a log, the reader
            // must read it.
            let hasLog = ["-wal", "-journal"].contains {
                FileManager.default.fileExists(atPath: path + $0)
            }
            database = try Database(path: path, key: key, mode: hasLog ? .readOnly : .frozen)
        } catch let error as SQLiteError where error.isReadOnly {
            // An app that ended while it created the file left a journal, and only a writer can
            // roll it back.
            return
        }
        _ = try checkedVersion(database, path)
    }

    private static func checkFolder(_ path: String) throws {
        let parts = path.split(separator: "/", omittingEmptySubsequences: false).dropLast()
        let folder = parts.isEmpty ? "." : parts.joined(separator: "/") + "/"
        var isFolder: ObjCBool = false
        guard FileManager.default.fileExists(atPath: folder, isDirectory: &isFolder),
            isFolder.boolValue
        else { throw SyncError.noStoreFolder(folder, path) }
    }

    /// Returns the format version of a file that is a store or is still empty.
    ///
    /// A store of the original SDK has the queue's tables but no application ID.
    private static func checkedVersion(_ database: Database, _ path: String) throws -> Int64 {
        let owner = try database.integer("PRAGMA application_id") ?? 0
        if owner != applicationID {
            let isEmpty = try tableCount(database) == 0
            let hasQueue = try hasTable(SystemTables.operations, database)
            guard owner == 0, isEmpty || hasQueue else {
                let isServer = try hasTable("tideline_tables", database)
                throw SyncError.notAStore(path, isServer: isServer)
            }
        }
        let version = try database.integer("PRAGMA user_version") ?? 0
        guard version <= formatVersion else {
            throw SyncError.newerStore(found: version, known: formatVersion)
        }
        return version
    }

    private static func tableCount(_ database: Database) throws -> Int64? {
        try database.integer("SELECT count(*) FROM sqlite_master")
    }

    private static func hasTable(_ name: String, _ database: Database) throws -> Bool {
        let sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1"
        return try database.integer(sql, [.text(name)]) != nil
    }

    static func prepare(_ database: Database, path: String) throws {
        guard try checkedVersion(database, path) < formatVersion else { return }
        try database.transaction {
            // Another process may have upgraded the file in the meantime.
            guard try checkedVersion(database, path) < formatVersion else { return }
            try SQLiteStoreFormat.upgrade(database)
            try database.execute("PRAGMA application_id = \(applicationID)")
            try database.execute("PRAGMA user_version = \(formatVersion)")
        }
    }

    /// `moved` receives the number of rows of a table that have been converted so far.
    static func makeTables(
        _ schemas: [TableSchema],
        in database: Database,
        moved: (_ table: String, _ rows: Int) throws -> Void
    ) throws -> [SQLiteTable] {
        try OrderTables.removeUnsupported(in: database)
        for schema in schemas {
            let table = SQLiteTable(schema)
            try ColumnMemory.keepRequired(table, in: database)
            // The indexes are dropped first, because a column that belongs to an index cannot be
            // moved.
            let indexes = TableIndexes(of: schema)
            try indexes.removeUndeclared(in: database)
            let search = SearchTables(of: schema)
            var hasSearch = try search?.exist(in: database) == true
            if !hasSearch { try SearchTables.remove(from: schema.name, in: database) }
            let order = OrderTables(of: schema)
            var hasOrder = try order?.exist(in: database) == true
            if !hasOrder { try OrderTables.remove(from: schema.name, in: database) }
            try make(table, in: database) { try moved(schema.name, $0) }
            try indexes.make(in: database)
            // The search index was removed if columns changed their types.
            if hasSearch { hasSearch = try search?.exist(in: database) == true }
            if let search, !hasSearch {
                try search.make(in: database) { try moved(schema.name, $0) }
            }
            if hasOrder { hasOrder = try order?.exist(in: database) == true }
            if let order, !hasOrder { try order.make(in: database) { try moved(schema.name, $0) } }
        }
        for schema in schemas { try ColumnMemory.keep(SQLiteTable(schema), in: database) }
        let names = Set(schemas.map(\.name))
        for index in SystemTables.indexes where names.contains(index.table) {
            let columns = index.columns.map { Identifier($0).quoted }.joined(separator: ", ")
            try database.execute(
                """
                CREATE INDEX IF NOT EXISTS \(Identifier(index.name).quoted)
                ON \(Identifier(index.table).quoted) (\(columns))
                """
            )
        }
        return try schemas.map { try table($0, in: database) }
    }

    /// Returns a table as it is currently in the file, including the columns that other models
    /// added.
    ///
    /// - Throws: ``SyncError`` if the file lacks a column of the model.
    static func table(_ schema: TableSchema, in database: Database) throws -> SQLiteTable {
        let plain = SQLiteTable(schema)
        guard plain.hasExtra else { return plain }
        let known = try ColumnMoves.columns(of: plain, in: database)
        let memory = try ColumnMemory(of: plain, in: database)
        for column in plain.columns where column.name != SystemColumn.id {
            guard known[column.name.lowercased()] == StorageClass(column.type).rawValue,
                memory.holds(column)
            else { throw SyncError.movedColumn(column.name, schema.name) }
        }
        let others = memory.others(than: plain, known)
        var table = others.isEmpty ? plain : SQLiteTable(schema, others: others)
        if let search = SearchTables(of: schema), try search.exist(in: database) {
            table.search = search
        }
        if let order = OrderTables(of: schema), try order.exist(in: database) {
            table.order = order
        }
        return table
    }

    static func make(
        _ table: SQLiteTable,
        in database: Database,
        moved: (_ rows: Int) throws -> Void = { _ in }
    ) throws {
        let name = Identifier(table.schema.name).quoted
        let known = try ColumnMoves.columns(of: table, in: database)
        if known.isEmpty {
            var columns = table.columns.map(declaration)
            if table.hasExtra {
                columns.append("\(SQLiteTable.extraColumn) TEXT")
                columns.append(checksumDeclaration)
            }
            try database.execute(
                """
                CREATE TABLE \(name) (
                    \(columns.joined(separator: ",\n    "))
                )
                """
            )
            return
        }
        var moves = ColumnMoves(table: table)
        let memory = try ColumnMemory(of: table, in: database)
        for column in table.columns {
            guard let type = known[column.name.lowercased()] else {
                try database.execute("ALTER TABLE \(name) ADD COLUMN \(declaration(column))")
                moves.hasGained = true
                continue
            }
            let isSame = type == StorageClass(column.type).rawValue && memory.holds(column)
            if column.name != SystemColumn.id, !isSame {
                moves.changed.append(
                    ColumnMoves.Change(
                        column: column,
                        former: memory.form(of: column.name) ?? form(of: column, declared: type)
                    )
                )
            }
        }
        // Tables of the original SDK do not have this column.
        if table.hasExtra, known["__extra"] == nil {
            try database.execute("ALTER TABLE \(name) ADD COLUMN \(SQLiteTable.extraColumn) TEXT")
        }
        if table.hasExtra, known[SQLiteTable.checksum] == nil {
            try database.execute("ALTER TABLE \(name) ADD COLUMN \(checksumDeclaration)")
        }
        // The rewritten rows are read with the columns that are stored here.
        try ColumnMemory.keep(table, in: database)
        try moves.run(in: database, moved)
    }

    /// Returns the conversion from cells to values for a column that no model has declared.
    ///
    /// Only the original SDK declares types such as `BOOLEAN` and `DATETIME`. Its cells have the
    /// same form as this client's cells for a column of that type.
    private static func form(of column: ColumnDefinition, declared type: String) -> CellForm {
        StorageClass(rawValue: type) == nil ? CellForm(column.type) : .plain
    }

    static func declaration(_ column: ColumnDefinition) -> String {
        let name = Identifier(column.name).quoted
        if column.name == SystemColumn.id {
            return column.type == .integer
                ? "\(name) INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL"
                : "\(name) TEXT PRIMARY KEY NOT NULL"
        }
        return "\(name) \(StorageClass(column.type).rawValue)"
    }

    private static var checksumDeclaration: String {
        "\(Identifier(SQLiteTable.checksum).quoted) INTEGER"
    }
}
