// DatabaseInspection: reads one snapshot in one transaction, and writes nothing. Other programs may use the file in the
// meantime.
//
// The report has counts, times, names and ids, and never the values of a row.

import Foundation
import TidelineCore
import TidelineSQLite
package import TidelineServerCore

/// A report on a server's database or a device's store.
package struct DatabaseInspection {
    let path: String

    /// The maximum number of operations, and errors, that the report lists.
    private static let listedMax = 100

    private let now: Int64

    /// `now` is in microseconds since 1970; the report compares table clocks with it.
    package init(path: String, now: Int64 = ServerEnvironment.live.now()) {
        self.path = path
        self.now = now
    }

    /// Returns a report on the file.
    ///
    /// - Throws: ``DatabaseError`` for a file that is neither a store nor a server's database.
    package func report() throws -> Report {
        let database = try open()
        return try DatabaseError.naming(path) {
            try database.snapshot {
                let owner = try database.integer("PRAGMA application_id") ?? 0
                let isStore = try Self.has("MS_TableOperations", database)
                guard isStore || owner == ServerSchema.applicationID else {
                    guard try Self.has("tideline_tables", database) else {
                        throw DatabaseError.unknown(path)
                    }
                    return try server(database)
                }
                return try isStore ? store(database) : server(database)
            }
        }
    }

    func open() throws -> Database {
        var status = stat()
        guard stat(path, &status) == 0 else { throw DatabaseError.missing(path) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw DatabaseError.notAFile(path) }
        guard access(path, R_OK) == 0 else {
            throw DatabaseError.notPermitted(path, "cannot be read")
        }
        return try DatabaseError.naming(path) {
            guard try DatabaseHeader(path: path).isDatabase else {
                throw DatabaseError.unreadable(path)
            }
            // If a program has the file open, there is a log; otherwise the file is read without creating files next
            // to it.
            let isOpen = ["-wal", "-journal"].contains { access(path + $0, F_OK) == 0 }
            return try Database(path: path, mode: isOpen ? .readOnly : .frozen)
        }
    }

    static func has(_ table: String, _ database: Database) throws -> Bool {
        try database.integer(ServerSchema.hasTable, [.text(table)]) ?? 0 > 0
    }

    private func files(_ database: Database) throws -> Report {
        let page = try database.integer("PRAGMA page_size") ?? 0
        return Report([
            "database": .integer(ServerFile.size(of: path) ?? 0),
            "log": .integer(ServerFile.size(of: path + "-wal") ?? 0),
            "free": .integer(page * (try database.integer("PRAGMA freelist_count") ?? 0)),
        ])
    }

    private func count(
        _ table: String,
        _ condition: String,
        _ database: Database
    ) throws -> Report.Item {
        let name = ServerSchema.quoted(table)
        return .integer(
            try database.integer("SELECT count(*) FROM \(name) WHERE \(condition)") ?? 0
        )
    }

    // MARK: - A server's database

    private func server(_ database: Database) throws -> Report {
        let hasHorizon = try database.integer(ServerSchema.hasHorizon) ?? 0 > 0
        var tables: [Report] = []
        let columns = "\"name\", \"stamp\"" + (hasHorizon ? ", \"horizon\"" : ", 0")
        try Self.rows("SELECT \(columns) FROM \"tideline_tables\" ORDER BY \"name\"", database) {
            let name = $0.text(0)
            guard try Self.has(name, database) else { return }
            let log = ServerSchema.logName(name)
            tables.append(
                Report([
                    "name": .text(name),
                    "rows": try count(name, "\"deleted\" = 0", database),
                    "deleted": try count(name, "\"deleted\" = 1", database),
                    "changeLog": try Self.has(log, database)
                        ? count(log, "1", database) : .integer(0),
                    "lastWrite": .time($0.integer(1)),
                    "clockAheadSeconds": .integer(ClockAhead.seconds($0.integer(1), now: now)),
                    "horizon": .time($0.integer(2)),
                ])
            )
        }
        var epoch: String?
        if try Self.has("tideline_state", database) {
            try Self.rows(ServerSchema.readEpoch, database) { epoch = $0.text(0) }
        }
        var report = Report([
            "kind": .text("server"),
            "format": .integer(try database.integer("PRAGMA user_version") ?? 0),
            "epoch": Report.Item(epoch),
        ])
        for (name, table) in [
            ("ledgerEntries", "tideline_ledger"), ("mergeBases", "tideline_bases"),
            ("auditEntries", "tideline_audit"),
        ] {
            report[name] =
                try Self.has(table, database) ? count(table, "1", database) : .integer(0)
        }
        report["bytes"] = .report(try files(database))
        report["tables"] = .list(tables)
        return report
    }

    // MARK: - A device's store

    private func store(_ database: Database) throws -> Report {
        var tables: [Report] = []
        try Self.rows(StoreSQL.tables, database) {
            let name = $0.text(0)
            var columns: [String] = []
            try Self.rows(StoreSQL.columns, database, with: [.text(name)]) {
                columns.append($0.text(0))
            }
            tables.append(
                Report([
                    "name": .text(name), "rows": try count(name, "1", database),
                    "columns": .texts(columns),
                ])
            )
        }
        var report = Report([
            "kind": .text("store"),
            "format": .integer(try database.integer("PRAGMA user_version") ?? 0),
            "queued": try count("MS_TableOperations", "1", database),
        ])
        let hasErrors = try Self.has("MS_TableOperationErrors", database)
        report["errorCount"] =
            try hasErrors ? count("MS_TableOperationErrors", "1", database) : .integer(0)
        report["bytes"] = .report(try files(database))
        report["tables"] = .list(tables)
        // The queue of an older storage format, or of the original SDK, has other columns.
        let isOld = try database.integer(StoreSQL.hasKind) == 0
        report["queue"] = .list(isOld ? [] : try queue(database))
        report["errors"] = .list(isOld || !hasErrors ? [] : try errors(database))
        report["cursors"] = .list(
            try Self.has("MS_TableConfig", database) ? try cursors(database) : []
        )
        if try Self.has("MS_TableConfig", database) {
            let found = try differences(database)
            if !found.isEmpty { report["differences"] = .list(found) }
            let local = try localNames(database)
            if !local.isEmpty { report["local"] = .texts(local) }
        }
        return report
    }

    /// Reads the names of the tables and columns that stay on the device.
    private func localNames(_ database: Database) throws -> [String] {
        var names: [String] = []
        try Self.rows(StoreSQL.localNames, database) {
            names += $0.text(0).split(separator: "\n").map(String.init)
        }
        return names
    }

    private func queue(_ database: Database) throws -> [Report] {
        var entries: [Report] = []
        try Self.rows("\(StoreSQL.queue) LIMIT \(Self.listedMax)", database) {
            entries.append(
                Report([
                    "operation": .integer($0.integer(0)),
                    "table": .text($0.text(1)),
                    "item": .text($0.text(2)),
                    "kind": .text(StoreSQL.kind($0.integer(3))),
                    "state": .text(StoreSQL.state($0.integer(4))),
                    "attempts": .integer($0.integer(5)),
                    "firstSent": Report.Item($0.text(6).isEmpty ? nil : $0.text(6)),
                ])
            )
        }
        return entries
    }

    private func errors(_ database: Database) throws -> [Report] {
        var entries: [Report] = []
        try Self.rows("\(StoreSQL.errors) LIMIT \(Self.listedMax)", database) {
            let status = $0.integer(3)
            entries.append(
                Report([
                    "operation": .integer($0.integer(0)),
                    "table": Report.Item($0.text(1)),
                    "item": Report.Item($0.text(2)),
                    "status": status == 0 ? .none : .integer(status),
                ])
            )
        }
        return entries
    }

    private func cursors(_ database: Database) throws -> [Report] {
        var entries: [Report] = []
        try Self.rows(StoreSQL.cursors, database) {
            let link = $0.text(3)
            let isLink = !link.isEmpty
            let filter = SlowRequests.shape(of: link).split(separator: "&").first {
                $0.lowercased().hasPrefix("$filter=")
            }
            entries.append(
                Report([
                    "table": .text($0.text(0)),
                    "query": .text($0.text(1)),
                    // The literals of the filter are left out, because they may be values of rows.
                    "filter": Report.Item(filter.map { String($0.dropFirst(8)) }),
                    "position": .text(isLink ? "changes" : $0.text(2)),
                    "epoch": Report.Item($0.text(4).isEmpty ? nil : $0.text(4)),
                    "endpoint": Report.Item($0.text(5).isEmpty ? nil : $0.text(5)),
                ])
            )
        }
        return entries
    }

    /// Returns where the device found that the app's tables differ from those of its server.
    private func differences(_ database: Database) throws -> [Report] {
        var entries: [Report] = []
        try Self.rows("\(StoreSQL.differences) LIMIT \(Self.listedMax)", database) {
            entries.append(
                Report([
                    "endpoint": .text($0.text(0)),
                    "table": .text($0.text(1)),
                    "column": Report.Item($0.text(2).isEmpty ? nil : $0.text(2)),
                    "difference": .text($0.text(3)),
                ])
            )
        }
        return entries
    }

    private static func rows(
        _ sql: String,
        _ database: Database,
        with values: [SQLValue] = [],
        _ body: (Statement) throws -> Void
    ) throws {
        let statement = try database.prepare(sql)
        defer { statement.reset() }
        try statement.bind(values)
        while try statement.step() { try body(statement) }
    }
}

/// The SQL for the tables of a store, with the documented names.
private enum StoreSQL {
    static let tables = """
        SELECT "name" FROM "sqlite_master"
        WHERE "type" = 'table' AND "name" NOT LIKE 'MS~_Table%' ESCAPE '~'
            AND "name" NOT LIKE 'sqlite~_%' ESCAPE '~'
        ORDER BY "name"
        """

    /// The columns of the app's tables, without the columns of the store itself.
    static let columns = """
        SELECT "name" FROM pragma_table_info(?1) WHERE "name" NOT LIKE '~_~_%' ESCAPE '~'
        """

    static let hasKind = """
        SELECT count(*) FROM pragma_table_info('MS_TableOperations') WHERE "name" = 'kind'
        """

    static let queue = """
        SELECT "id", "table", "itemId", coalesce("kind", -1), coalesce("state", 0),
            coalesce("attempts", 0), coalesce("firstSent", '')
        FROM "MS_TableOperations" ORDER BY "id"
        """

    static let errors = """
        SELECT e."operationId", coalesce(o."table", ''), coalesce(o."itemId", ''),
            coalesce(CASE WHEN json_valid(CAST(e."properties" AS TEXT))
                THEN json_extract(CAST(e."properties" AS TEXT), '$.statusCode') END, 0)
        FROM "MS_TableOperationErrors" AS e
        LEFT JOIN "MS_TableOperations" AS o ON o."id" = e."operationId"
        ORDER BY e."operationId"
        """

    /// Reads the cursors, each of which has several rows: the position, the epoch, the endpoint.
    static let cursors = """
        SELECT "table", "key",
            coalesce(max(CASE WHEN "keyType" = 0 THEN "value" END), ''),
            coalesce(max(CASE WHEN "keyType" = 7 THEN "value" END), ''),
            coalesce(max(CASE WHEN "keyType" = 5 THEN "value" END), ''),
            coalesce(max(CASE WHEN "keyType" = 4 THEN "value" END), '')
        FROM "MS_TableConfig"
        WHERE "keyType" IN (0, 4, 5, 7) AND "table" <> ''
        GROUP BY "table", "key" ORDER BY "table", "key"
        """

    /// Reads the result of the last comparison of schemas with each endpoint, which is JSON.
    static let differences = """
        SELECT substr(c."id", length('schema|') + 1), coalesce(json_extract(d."value", '$.table'), ''),
            coalesce(json_extract(d."value", '$.column'), ''),
            coalesce(json_extract(d."value", '$.reason'), '')
        FROM "MS_TableConfig" AS c,
            json_each(CASE WHEN json_valid(c."value") THEN c."value" ELSE '{}' END, '$.differences') AS d
        WHERE c."key" = 'schema' AND c."table" = ''
        ORDER BY c."id", d."id"
        """

    static let localNames = """
        SELECT coalesce("value", '') FROM "MS_TableConfig" WHERE "id" = 'local' AND "key" = 'local'
        """

    static func kind(_ number: Int64) -> String {
        switch number {
        case 0: "insert"
        case 1: "update"
        case 2: "delete"
        default: "unreadable"
        }
    }

    static func state(_ number: Int64) -> String {
        switch number {
        case 0: "pending"
        case 1: "attempted"
        default: "parked"
        }
    }
}
