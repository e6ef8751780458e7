// FileCopy: a server's file as the source or the target of a copy, while no server uses it.

import Foundation
import TidelineCore
import TidelineSQLite
package import TidelineServerCore

/// A file that is the source or target of a copy, confined to the thread that created it.
package final class FileCopy {
    private let path: String
    /// The lock of the file; nil for a reader.
    private let lock: FileLock?
    private let database: Database

    /// - Throws: ``DatabaseError``, with code `inUse` while a server uses the file.
    package init(path: String, mayBeNew: Bool) throws {
        self.path = path
        lock = try ServerFile(path: path).lock(mayBeNew: mayBeNew)
        do {
            database = try DatabaseError.naming(path) {
                let database = try Database(path: path)
                try database.transaction {
                    try SchemaChange(database: database, now: { 0 }).open()
                }
                return database
            }
        } catch {
            lock?.release()
            throw error
        }
    }

    /// Opens the file for reading one snapshot, even while a server uses it; nothing is written.
    ///
    /// - Throws: ``DatabaseError``
    package init(reading path: String) throws {
        self.path = path
        lock = nil
        database = try DatabaseInspection(path: path).open()
        try naming {
            for table in ["tideline_bases", "tideline_ledger", "tideline_audit"] {
                guard try DatabaseInspection.has(table, database) else {
                    throw DatabaseError(
                        .unavailable,
                        "'\(path)' was created by an older version. Start its server once, then try again."
                    )
                }
            }
            try database.execute("BEGIN")
        }
    }

    deinit { lock?.release() }

    private func naming<Result>(_ body: () throws -> Result) throws -> Result {
        try DatabaseError.naming(path, body)
    }

    private func text(of key: String) throws -> String? {
        let statement = try database.prepare(
            "SELECT \"value\" FROM \"tideline_state\" WHERE \"key\" = ?1"
        )
        defer { statement.reset() }
        statement.bind(1, text: key)
        return try statement.step() ? statement.text(0) : nil
    }

    private func put(_ value: String, as key: String) throws {
        try database.prepare(
            """
            INSERT INTO "tideline_state" ("key", "value") VALUES (?1, ?2)
            ON CONFLICT ("key") DO UPDATE SET "value" = excluded."value"
            """
        ).run([.text(key), .text(value)])
    }

    private static func log(_ table: String) -> String { "log.\(table.lowercased())" }

    /// Returns the names of the columns in the order of a row image: those of the table, then the system columns.
    private static func names(_ table: Table) -> String {
        (table.columns + SystemColumn.definitions).map { ServerSchema.quoted($0.name) }
            .joined(separator: ", ")
    }

    private static func placeholders(_ count: Int) -> String {
        (1...count).map { "?\($0)" }.joined(separator: ", ")
    }
}

// MARK: - The source

extension FileCopy: CopySource {
    package func state() throws -> CopiedState {
        try naming {
            if try text(of: CopyProgress.key) != nil {
                throw DatabaseError(.unavailable, CopyProgress.rejection)
            }
            let statement = try database.prepare(
                """
                SELECT "name", "columns", "stamp", "horizon" FROM "tideline_tables" ORDER BY "name"
                """
            )
            defer { statement.reset() }
            var tables: [CopiedTable] = []
            while try statement.step() {
                let name = statement.text(0)
                tables.append(
                    CopiedTable(
                        definition: TableDefinition(
                            name,
                            columns: try ColumnsText.read(statement.text(1))
                        ),
                        clock: TableClock(
                            timestamp: statement.integer(2),
                            horizon: statement.integer(3)
                        ),
                        log: try text(of: Self.log(name))
                    )
                )
            }
            return CopiedState(
                epoch: try text(of: "epoch") ?? "",
                ledgerHorizon: try database.integer(ServerSchema.latestLedgerHorizon),
                ledger: try cells(
                    """
                    SELECT count(*), ifnull(min("place"), 0), ifnull(max("place"), 0)
                    FROM "tideline_ledger"
                    """,
                    []
                ).joined().map(Self.integer),
                tables: tables
            )
        }
    }

    package func piece(
        _ part: CopyPart,
        after: [String],
        limit: Int
    ) throws -> (piece: CopyChunk, key: [String]) {
        try naming {
            let limit = SQLValue.integer(Int64(limit))
            switch part {
            case .rows(let table):
                let cells = try cells(
                    """
                    SELECT \(Self.names(table)) FROM \(ServerSchema.quoted(table.name))
                    WHERE "id" > ?1 ORDER BY "id" LIMIT ?2
                    """,
                    [.text(after.first ?? ""), limit]
                )
                let rows = cells.map { Self.image($0[...], table) }
                return (.rows(rows, of: table), rows.last.map { [$0.id] } ?? [])
            case .log(let table):
                let cells = try cells(
                    """
                    SELECT "tideline_stamp", "tideline_deleted", \(Self.names(table))
                    FROM \(ServerSchema.quoted(ServerSchema.logName(table.name)))
                    WHERE "tideline_stamp" > ?1 ORDER BY "tideline_stamp" LIMIT ?2
                    """,
                    [.integer(after.first.flatMap { Int64($0) } ?? .min), limit]
                )
                let log = cells.map { cells in
                    CopiedDeparture(
                        timestamp: Self.integer(cells[0]),
                        isDeleted: Self.integer(cells[1]) != 0,
                        image: Self.image(cells[2...], table)
                    )
                }
                return (.log(log, of: table), log.last.map { [String($0.timestamp)] } ?? [])
            case .bases:
                let key = after.count == 3 ? after : ["", "", "0"]
                let cells = try cells(
                    """
                    SELECT "table", "id", "version", "row" FROM "tideline_bases"
                    WHERE ("table", "id", "version") > (?1, ?2, ?3)
                    ORDER BY "table", "id", "version" LIMIT ?4
                    """,
                    [.text(key[0]), .text(key[1]), .integer(Int64(key[2]) ?? 0), limit]
                )
                let last = cells.last.map { $0.prefix(3).map(Self.text) }
                return (.bases(cells.map { CopiedCells($0) }), last ?? [])
            case .ledger:
                let names = CopiedCells.ofEntry.map { "\"\($0)\"" }.joined(separator: ", ")
                let cells = try cells(
                    """
                    SELECT \(names), "place" FROM "tideline_ledger"
                    WHERE "place" > ?1 ORDER BY "place" LIMIT ?2
                    """,
                    [.integer(after.first.flatMap { Int64($0) } ?? 0), limit]
                )
                let last = cells.last?.last.map { [Self.text($0)] }
                return (.ledger(cells.map { CopiedCells(Array($0.dropLast())) }), last ?? [])
            case .audit:
                let found = try AuditLog.entries(
                    ServerSchema.copyAudit,
                    [.integer(after.first.flatMap { Int64($0) } ?? 0), limit],
                    database
                )
                return (.audit(found.map(\.entry)), found.last.map { [String($0.place)] } ?? [])
            case .cascades:
                // The table is newer than some files.
                guard try DatabaseInspection.has("tideline_cascades", database) else {
                    return (.cascades([]), [])
                }
                let found = try PendingCascades.entries(
                    ServerSchema.copyCascades,
                    [.integer(after.first.flatMap { Int64($0) } ?? 0), limit],
                    database
                )
                return (.cascades(found), found.last.map { [String($0.place)] } ?? [])
            }
        }
    }

    private func cells(_ sql: String, _ values: [SQLValue]) throws -> [[SQLValue]] {
        let statement = try database.prepare(sql)
        defer { statement.reset() }
        try statement.bind(values)
        var rows: [[SQLValue]] = []
        let count = statement.columnCount
        while try statement.step() { rows.append((0..<count).map { statement.value($0) }) }
        return rows
    }

    private static func integer(_ value: SQLValue) -> Int64 {
        if case .integer(let number) = value { number } else { 0 }
    }

    private static func text(_ value: SQLValue) -> String {
        switch value {
        case .text(let text): text
        case .integer(let number): String(number)
        case .null, .real, .blob, .program: ""
        }
    }

    private static func image(_ cells: ArraySlice<SQLValue>, _ table: Table) -> RowImage {
        let cells = Array(cells)
        let count = table.columns.count
        return RowImage(
            id: text(cells[count]),
            values: Array(cells[..<count]),
            createdAt: integer(cells[count + 1]),
            updatedAt: integer(cells[count + 2]),
            version: integer(cells[count + 3]),
            isDeleted: integer(cells[count + 4]) != 0
        )
    }
}

// MARK: - The target

extension FileCopy: CopyTarget {
    package func progress() throws -> CopyProgress? {
        try naming {
            if let text = try text(of: CopyProgress.key) { return CopyProgress(text) }
            let tables = try database.integer("SELECT count(*) FROM \"tideline_tables\"") ?? 0
            guard tables == 0 else {
                throw DatabaseError(.exists, "'\(path)' already has tables. Copy into a new file.")
            }
            return nil
        }
    }

    package func begin(_ state: CopiedState, _ progress: CopyProgress) throws {
        try naming {
            // The marker is stored before the first table.
            try database.transaction { try put(progress.text, as: CopyProgress.key) }
            _ = try SchemaChange(database: database, now: { 0 }).prepare(
                state.tables.map(\.definition),
                isComplete: false,
                isCopy: true
            )
        }
    }

    package func put(_ piece: CopyChunk, _ progress: CopyProgress) throws {
        try naming {
            try database.transaction {
                switch piece {
                case .rows(let rows, let table):
                    let count = table.columns.count + SystemColumn.definitions.count
                    let insert = try database.prepare(
                        """
                        INSERT INTO \(ServerSchema.quoted(table.name)) (\(Self.names(table)))
                        VALUES (\(Self.placeholders(count)))
                        """
                    )
                    for row in rows { try insert.run(row.allValues) }
                case .log(let log, let table):
                    let count = table.columns.count + SystemColumn.definitions.count + 2
                    let insert = try database.prepare(
                        """
                        INSERT INTO \(ServerSchema.quoted(ServerSchema.logName(table.name)))
                        ("tideline_stamp", "tideline_deleted", \(Self.names(table)))
                        VALUES (\(Self.placeholders(count)))
                        """
                    )
                    for entry in log {
                        try insert.run(
                            [.integer(entry.timestamp), .integer(entry.isDeleted ? 1 : 0)]
                                + entry.image.allValues
                        )
                    }
                case .bases(let bases):
                    let insert = try database.prepare(ServerSchema.keepBase)
                    for base in bases { try insert.run(base.cells) }
                case .ledger(let entries):
                    let insert = try database.prepare(ServerSchema.putLedger)
                    for entry in entries { try insert.run([Self.size(entry)] + entry.cells) }
                case .audit(let entries):
                    for entry in entries { try AuditLog.put(entry, database) }
                case .cascades(let entries):
                    for entry in entries { try PendingCascades.put(entry, database) }
                }
                try put(progress.text, as: CopyProgress.key)
            }
        }
    }

    private static func size(_ entry: CopiedCells) -> SQLValue {
        .integer(Int64(Ledger.entryBytes + (entry.cells.last.map(text)?.utf8.count ?? 0)))
    }

    package func end(_ state: CopiedState) throws {
        try naming {
            try database.transaction {
                for table in state.tables {
                    try database.prepare(
                        """
                        UPDATE "tideline_tables" SET "stamp" = ?2, "horizon" = ?3 WHERE "name" = ?1
                        """
                    ).run([
                        .text(table.definition.name), .integer(table.clock.timestamp),
                        .integer(table.clock.horizon),
                    ])
                    if let log = table.log { try put(log, as: Self.log(table.definition.name)) }
                }
                if let horizon = state.ledgerHorizon {
                    try put(String(horizon), as: "ledgerHorizon")
                }
                try Ledger.recount(database)
                try put(state.epoch, as: "epoch")
                try database.prepare("DELETE FROM \"tideline_state\" WHERE \"key\" = ?1")
                    .run([.text(CopyProgress.key)])
            }
            try database.foldLog()
        }
    }
}
