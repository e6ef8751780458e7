// PostgresCopy: a database in PostgreSQL as the source or the target of a copy.

import Foundation
import TidelineCore
import TidelinePostgres
package import TidelineServerCore

/// A database that is the source or target of a copy, confined to the thread that created it.
package final class PostgresCopy {
    private let address: PostgresAddress
    private let connection: PostgresConnection

    /// - Throws: ``DatabaseError``, which does not contain the password.
    package init(url: String) throws {
        do {
            address = try PostgresAddress(url)
            connection = try PostgresConnection(address)
        } catch let error as PostgresError {
            throw DatabaseError(.unavailable, error.description)
        }
    }

    /// Opens the database for reading one snapshot, while servers may write to it; nothing is written.
    ///
    /// - Throws: ``DatabaseError``, which does not contain the password.
    package convenience init(reading url: String) throws {
        try self.init(url: url)
        try naming {
            try connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        }
    }

    private func naming<Result>(_ body: () throws -> Result) throws -> Result {
        do {
            return try body()
        } catch let error as PostgresError {
            _ = connection.endTransaction()
            throw DatabaseError(.unavailable, "\(address): \(error)")
        } catch let error as SchemaError {
            _ = connection.endTransaction()
            throw DatabaseError(.schemaChange, "\(address): \(error)")
        }
    }

    private func transaction(_ body: () throws -> Void) throws {
        // With this setting, the triggers assign no timestamps to the rows.
        try connection.execute("BEGIN; SET LOCAL tideline.own = 'on'")
        try body()
        try connection.execute("COMMIT")
    }

    private var hasTables: Bool {
        get throws {
            !(try connection.run("SELECT to_regclass('tideline.state') IS NULL").boolean(0, 0))
        }
    }

    private func text(of key: String) throws -> String? {
        let found = try connection.run(
            "SELECT \"value\" FROM tideline.state WHERE \"key\" = $1",
            [.text(key)]
        )
        return found.count > 0 ? found.text(0, 0) : nil
    }

    private func put(_ value: String, as key: String) throws {
        try connection.run(PostgresSchema.putState, [.text(key), .text(value)])
    }

    private static func log(_ table: String) -> String { "log.\(table.lowercased())" }
}

// MARK: - The source

extension PostgresCopy: CopySource {
    package func state() throws -> CopiedState {
        try naming {
            guard try hasTables else {
                throw DatabaseError(
                    .missing,
                    "\(address): this database has no tables of a server."
                )
            }
            if try text(of: CopyProgress.key) != nil {
                throw DatabaseError(.unavailable, CopyProgress.rejection)
            }
            let tables = try tables()
            let ledger = try connection.run(
                """
                SELECT count(*), coalesce(min("received"), 0), coalesce(max("received"), 0)
                FROM tideline.ledger
                """
            )
            return CopiedState(
                epoch: try text(of: "epoch") ?? "",
                ledgerHorizon: try ledgerHorizon(),
                ledger: (0..<3).map { ledger.integer(0, $0) },
                tables: tables
            )
        }
    }

    /// Returns the latest horizon of all callers, for a target without accounts.
    private func ledgerHorizon() throws -> Int64? {
        let all = try text(of: "ledgerHorizon").flatMap { Int64($0) } ?? 0
        let isOld = try connection.run("SELECT to_regclass('tideline.ledger_callers') IS NULL")
        let own =
            try isOld.boolean(0, 0)
            ? 0
            : connection.run(
                "SELECT coalesce(max(\"horizon\"), 0) FROM tideline.ledger_callers"
            ).integer(0, 0)
        return max(all, own) > 0 ? max(all, own) : nil
    }

    package func leftOut() throws -> [String] {
        try naming {
            let found = try connection.run(
                """
                SELECT t."relation", t."columns", a.attname::text
                FROM tideline.tables AS t JOIN pg_attribute AS a
                ON a.attrelid = to_regclass(quote_ident(t."relation")) AND a.attnum > 0
                AND NOT a.attisdropped ORDER BY 1, 3
                """
            )
            return try (0..<found.count).compactMap { row in
                let table = try PostgresSchema.table(found.text(row, 0), found.text(row, 1))
                let known = Set(
                    table.schema.columns.map(\.name) + SystemColumn.definitions.map(\.name)
                )
                let name = found.text(row, 2)
                return known.contains(name) ? nil : "\(table.name).\(name)"
            }
        }
    }

    private func tables() throws -> [CopiedTable] {
        let found = try connection.run(
            """
            SELECT t."relation", t."columns", c."stamp", c."horizon"
            FROM tideline.tables AS t JOIN tideline.clocks AS c ON c."table" = t."name"
            ORDER BY t."name"
            """
        )
        return try (0..<found.count).map { row in
            CopiedTable(
                definition: try PostgresSchema.table(found.text(row, 0), found.text(row, 1)),
                clock: TableClock(timestamp: found.integer(row, 2), horizon: found.integer(row, 3)),
                log: try text(of: Self.log(found.text(row, 0)))
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
                let form = PostgresTable(table)
                let found = try connection.run(
                    """
                    SELECT \(form.cells()) FROM \(form.quoted)
                    WHERE "id" > $1 ORDER BY "id" LIMIT $2
                    """,
                    [.text(after.first ?? ""), limit]
                )
                let rows = (0..<found.count).map { form.image(found, $0) }
                return (.rows(rows, of: table), rows.last.map { [$0.id] } ?? [])
            case .log(let table):
                let form = PostgresTable(table)
                let found = try connection.run(
                    """
                    SELECT "tideline_stamp", "tideline_deleted", \(form.cells())
                    FROM \(PostgresName.log(table.name))
                    WHERE "tideline_stamp" > $1 ORDER BY "tideline_stamp" LIMIT $2
                    """,
                    [.integer(after.first.flatMap { Int64($0) } ?? .min), limit]
                )
                let log = (0..<found.count).map { row in
                    CopiedDeparture(
                        timestamp: found.integer(row, 0),
                        isDeleted: found.boolean(row, 1),
                        image: form.image(found, row, from: 2)
                    )
                }
                return (.log(log, of: table), log.last.map { [String($0.timestamp)] } ?? [])
            case .bases: return try bases(after, limit)
            case .ledger: return try ledger(after, limit)
            case .audit:
                if try PostgresAudit.isMissing(connection) { return (.audit([]), []) }
                let found = try PostgresAudit.entries(
                    "WHERE \"place\" > $1 ORDER BY \"place\" LIMIT $2",
                    [.integer(after.first.flatMap { Int64($0) } ?? .min), limit],
                    connection
                )
                return (.audit(found.map(\.entry)), found.last.map { [String($0.place)] } ?? [])
            case .cascades: return try cascades(after, limit)
            }
        }
    }

    private func bases(
        _ after: [String],
        _ limit: SQLValue
    ) throws -> (piece: CopyChunk, key: [String]) {
        let key = after.count == 3 ? after : ["", "", "0"]
        let found = try connection.run(
            """
            SELECT "table", "id", "version", "row" FROM tideline.bases
            WHERE ("table", "id", "version") > ($1, $2, $3)
            ORDER BY "table", "id", "version" LIMIT $4
            """,
            [.text(key[0]), .text(key[1]), .integer(Int64(key[2]) ?? 0), limit]
        )
        let cells = (0..<found.count).map { row in
            CopiedCells([
                .text(found.text(row, 0)), .text(found.text(row, 1)),
                .integer(found.integer(row, 2)), .text(found.text(row, 3)),
            ])
        }
        let row = found.count - 1
        let last =
            row < 0
            ? [] : [found.text(row, 0), found.text(row, 1), String(found.integer(row, 2))]
        return (.bases(cells), last)
    }

    private func cascades(
        _ after: [String],
        _ limit: SQLValue
    ) throws -> (piece: CopyChunk, key: [String]) {
        let table = try connection.run("SELECT to_regclass('tideline.cascades') IS NULL")
        if table.boolean(0, 0) { return (.cascades([]), []) }
        let found = ReferenceStatements.entries(
            try connection.run(
                """
                SELECT "place", "table", "id", "user", "device", "dashboard" FROM tideline.cascades
                WHERE "place" > $1 ORDER BY "place" LIMIT $2
                """,
                [.integer(after.first.flatMap { Int64($0) } ?? .min), limit]
            )
        )
        return (.cascades(found), found.last.map { [String($0.place)] } ?? [])
    }

    /// Returns entries, beginning with the oldest, because an SQLite file removes them in this order.
    private func ledger(
        _ after: [String],
        _ limit: SQLValue
    ) throws -> (piece: CopyChunk, key: [String]) {
        let names = CopiedCells.ofEntry.map { "\"\($0)\"" }.joined(separator: ", ")
        let key = after.count == 3 ? after : [String(Int64.min), "", ""]
        let found = try connection.run(
            """
            SELECT \(names) FROM tideline.ledger
            WHERE ("received", "request", "caller") > ($1, $2, $3)
            ORDER BY "received", "request", "caller" LIMIT $4
            """,
            [.integer(Int64(key[0]) ?? .min), .text(key[1]), .text(key[2]), limit]
        )
        func cell(_ row: Int, _ place: Int, _ value: SQLValue) -> SQLValue {
            found.isNull(row, place) ? .null : value
        }
        let cells = (0..<found.count).map { row in
            CopiedCells([
                .text(found.text(row, 0)), .text(found.text(row, 1)),
                .integer(found.integer(row, 2)), .blob(found.data(row, 3)),
                .text(found.text(row, 4)), .text(found.text(row, 5)),
                cell(row, 6, .integer(found.integer(row, 6))),
                cell(row, 7, .integer(found.integer(row, 7))),
                cell(row, 8, .integer(found.boolean(row, 8) ? 1 : 0)),
                cell(row, 9, .text(found.text(row, 9))),
            ])
        }
        let row = found.count - 1
        let last =
            row < 0
            ? [] : [String(found.integer(row, 2)), found.text(row, 0), found.text(row, 1)]
        return (.ledger(cells), last)
    }
}

// MARK: - The target

extension PostgresCopy: CopyTarget {
    package func progress() throws -> CopyProgress? {
        try naming {
            guard try hasTables else { return nil }
            if let text = try text(of: CopyProgress.key) { return CopyProgress(text) }
            let tables = try connection.run("SELECT count(*) FROM tideline.tables").integer(0, 0)
            guard tables == 0 else {
                throw DatabaseError(
                    .exists,
                    "\(address) already has tables. Copy into a new database."
                )
            }
            return nil
        }
    }

    package func begin(_ state: CopiedState, _ progress: CopyProgress) throws {
        try naming {
            let change = PostgresSchemaChange(connection: connection, now: nil)
            // The marker row is stored before the first table.
            try connection.execute("BEGIN; \(PostgresSchema.open)")
            try put(progress.text, as: CopyProgress.key)
            try connection.execute("COMMIT")
            do {
                _ = try change.prepare(
                    state.tables.map(\.definition),
                    filtered: nil,
                    isComplete: false,
                    isCopy: true
                )
            } catch {
                // The owner of the database may keep using it.
                _ = connection.endTransaction()
                _ = try? connection.run(
                    "DELETE FROM tideline.state WHERE \"key\" = $1",
                    [.text(CopyProgress.key)]
                )
                throw error
            }
        }
    }

    package func put(_ piece: CopyChunk, _ progress: CopyProgress) throws {
        try naming {
            try transaction {
                switch piece {
                case .rows(let rows, let table):
                    let form = PostgresTable(table)
                    guard !rows.isEmpty else { break }
                    try connection.run(WriteState.insert(rows, into: form, form.quoted))
                case .log(let log, let table):
                    guard !log.isEmpty else { break }
                    var state = WriteState()
                    let form = PostgresTable(table)
                    state.logged = log.map { (form, $0.timestamp, $0.isDeleted, $0.image) }
                    for statement in state.statements() { try connection.run(statement) }
                case .bases(let bases):
                    try connection.run(
                        PostgresStatement(
                            """
                            INSERT INTO tideline.bases ("table", "id", "version", "row")
                            SELECT lower(t), i, v, r
                            FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[])
                            AS x(t, i, v, r)
                            """,
                            Self.columns(bases, CopiedCells.ofBase.count)
                        )
                    )
                case .ledger(let entries): try put(entries)
                case .audit(let entries):
                    guard !entries.isEmpty else { break }
                    try connection.run(PostgresAudit.put(entries))
                case .cascades(let entries):
                    guard !entries.isEmpty else { break }
                    try connection.run(ReferenceStatements.put(entries))
                }
                try put(progress.text, as: CopyProgress.key)
            }
        }
    }

    private func put(_ entries: [CopiedCells]) throws {
        let names = CopiedCells.ofEntry.map { "\"\($0)\"" }.joined(separator: ", ")
        var columns = Self.columns(entries, CopiedCells.ofEntry.count)
        let sizes = entries.map { entry in
            guard case .text(let row)? = entry.cells.last else {
                return SQLValue.integer(Int64(LedgerEntry.entryBytes))
            }
            return SQLValue.integer(Int64(LedgerEntry.entryBytes + row.utf8.count))
        }
        columns.append(.array(sizes))
        try connection.run(
            PostgresStatement(
                """
                INSERT INTO tideline.ledger (\(names), "size")
                SELECT q, c, e, d, o, i, v, u, g <> 0, r, s FROM unnest(
                    $1::text[], $2::text[], $3::bigint[], $4::bytea[], $5::text[], $6::text[],
                    $7::bigint[], $8::bigint[], $9::bigint[], $10::text[], $11::bigint[]
                ) AS x(q, c, e, d, o, i, v, u, g, r, s)
                """,
                columns
            )
        )
    }

    private static func columns(_ rows: [CopiedCells], _ count: Int) -> [PostgresParameter] {
        (0..<count).map { place in .array(rows.map { $0.cells[place] }) }
    }

    package func end(_ state: CopiedState) throws {
        try naming {
            try transaction {
                for table in state.tables {
                    try connection.run(
                        """
                        UPDATE tideline.clocks SET "stamp" = $2, "horizon" = $3 WHERE "table" = $1
                        """,
                        [
                            .text(table.definition.name.lowercased()),
                            .integer(table.clock.timestamp), .integer(table.clock.horizon),
                        ]
                    )
                    try connection.run(
                        """
                        INSERT INTO tideline.departures ("table", "millisecond", "count", "last")
                        VALUES ($1, $2, $3, greatest($4, \(PostgresClock.microseconds)))
                        """,
                        [
                            .text(table.definition.name.lowercased()),
                            .integer(PostgresClock.unknown), .integer(table.clock.timestamp / 1000),
                            .integer(table.clock.timestamp),
                        ]
                    )
                    if let log = table.log { try put(log, as: Self.log(table.definition.name)) }
                }
                if let horizon = state.ledgerHorizon {
                    try put(String(horizon), as: "ledgerHorizon")
                }
                try connection.execute(
                    """
                    DELETE FROM tideline.ledger_callers;
                    INSERT INTO tideline.ledger_callers ("caller", "account", "bytes")
                    SELECT "caller", 0, sum("size") FROM tideline.ledger GROUP BY "caller"
                    """
                )
                try put(state.epoch, as: "epoch")
                try connection.run(
                    "DELETE FROM tideline.state WHERE \"key\" = $1",
                    [.text(CopyProgress.key)]
                )
            }
            // The statistics for the first query plans are those of empty tables.
            try connection.execute("ANALYZE")
        }
    }
}
