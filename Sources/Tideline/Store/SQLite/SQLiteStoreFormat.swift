// SQLiteStoreFormat: upgrades a queue in one transaction, so that the file always has either the
// old format or the new one.
//
// Format 1 stored each operation as one JSON document, and the server rows of operations in a
// separate table. A store of the original SDK has the same format, but no application ID. Its
// operations count as never sent, and its updates send the whole row. Format 2 lacks only some
// columns, which are added when the tables are opened.

import TidelineCore
import TidelineSQLite

/// The upgrade of an older file's queue to the current format.
enum SQLiteStoreFormat {
    private static let operations = Identifier(SystemTables.operations).quoted

    /// Upgrades the file's queue to the current format, if there is a queue.
    static func upgrade(_ database: Database) throws {
        let known = try columns(of: SystemTables.operations, in: database)
        // Format 1 does not have the column `requestId`. Format 2 has it and needs no conversion.
        guard known.contains("properties"), !known.contains("requestId"),
            let schema = SystemTables.schemas.first(where: { $0.name == SystemTables.operations })
        else { return }
        guard database.readsJSON else { throw SyncError.olderStore }
        try addMissing(["state"], to: SystemTables.operations, in: database)
        try database.execute(makeBases)
        try database.execute("ALTER TABLE \(operations) RENAME TO \"queue_1\"")
        try SQLiteStoreSchema.make(SQLiteTable(schema), in: database)
        try database.execute(copyOperations)
        try database.execute("DROP TABLE \"queue_1\"")
        try database.execute("DROP TABLE \"MS_TableBases\"")
        if try !columns(of: SystemTables.config, in: database).isEmpty {
            try database.execute(takeCounter)
        }
        if try !columns(of: SystemTables.errors, in: database).isEmpty {
            try addMissing(["item", "serverItem"], to: SystemTables.errors, in: database)
            try database.execute(splitErrors)
        }
    }

    private static func columns(of table: String, in database: Database) throws -> Set<String> {
        Set(try database.columns(of: table).map(\.name))
    }

    private static func addMissing(
        _ names: [String],
        to table: String,
        in database: Database
    ) throws {
        let known = try columns(of: table, in: database)
        for name in names where !known.contains(name) {
            let (table, column) = (Identifier(table).quoted, Identifier(name).quoted)
            try database.execute("ALTER TABLE \(table) ADD COLUMN \(column)")
        }
    }

    // MARK: - SQL

    private static let makeBases = """
        CREATE TABLE IF NOT EXISTS "MS_TableBases" (
            "id" TEXT PRIMARY KEY NOT NULL,
            "table" TEXT,
            "itemId" TEXT,
            "properties" BLOB
        )
        """

    /// Copies the operations of an older format; a row's base row is stored with the row's first
    /// operation.
    ///
    /// Format 1 did not store the outcome of a parked operation, so the outcome becomes unknown. An
    /// operation that cannot be decoded is copied without a kind and with its original document.
    /// The push then parks it with an error that names it.
    private static let copyOperations = """
        INSERT INTO "MS_TableOperations" (
            "id", "itemId", "table", "tableKind", "properties", "kind", "state", "attempts",
            "outcomeUnknown", "requestId", "firstSent", "method", "query", "ifMatch", "body",
            "sentRow", "base", "latest", "basisVersion", "sendsWholeRow", "revives", "conflicts"
        )
        SELECT
            "id", "itemId", "table", 0,
            CASE WHEN "kind" IS NULL THEN "properties"
                ELSE CAST('{"type":' || "kind" || '}' AS BLOB) END,
            "kind",
            coalesce("state", 0),
            json_extract(p, '$.request.requestID') IS NOT NULL,
            coalesce("state" = 2, 0),
            json_extract(p, '$.request.requestID'),
            substr('SunMonTueWedThuFriSat', 1 + 3 * strftime('%w', sent), 3) || ', '
                || strftime('%d ', sent)
                || substr('JanFebMarAprMayJunJulAugSepOctNovDec', -2 + 3 * strftime('%m', sent), 3)
                || strftime(' %Y %H:%M:%S GMT', sent),
            json_extract(p, '$.request.method'),
            json_extract(p, '$.request.query'),
            json_extract(p, '$.request.ifMatch'),
            json_extract(p, '$.request.body'),
            json_extract(p, '$.request.sentRow'),
            coalesce(json_extract(b, '$.base'), json_extract(p, '$.item')),
            CASE WHEN json_extract(b, '$.isDeleted')
                THEN json_object('deleted', json('true'), 'version', json_extract(b, '$.version'))
                ELSE json_extract(b, '$.latest') END,
            json_extract(p, '$.basisVersion'),
            coalesce(
                json_extract(p, '$.sendsWholeRow'),
                "state" IS NULL AND "kind" = 1
            ),
            coalesce(json_extract(p, '$.revives'), 0),
            coalesce(json_extract(p, '$.conflicts'), 0)
        FROM (
            SELECT *, json_extract(p, '$.request.firstSent') AS sent,
                CASE WHEN json_type(p, '$.type') = 'integer'
                    AND json_extract(p, '$.type') IN (0, 1, 2)
                    THEN json_extract(p, '$.type') END AS "kind"
            FROM (
            SELECT o."id", o."itemId", o."table", o."state", o."properties",
                CASE WHEN json_valid(CAST(o."properties" AS TEXT))
                    THEN CAST(o."properties" AS TEXT) ELSE '{}' END AS p,
                CASE WHEN json_valid(CAST(b."properties" AS TEXT))
                    THEN CAST(b."properties" AS TEXT) END AS b
            FROM "queue_1" AS o
            LEFT JOIN "MS_TableBases" AS b
                ON b."id" = o."table" || char(10) || o."itemId" AND NOT EXISTS (
                    SELECT 1 FROM "queue_1" AS e
                    WHERE e."table" = o."table" AND e."itemId" = o."itemId" AND e."id" < o."id"
                )
            )
        )
        ORDER BY "id"
        """

    /// Moves the last id from a configuration row to SQLite's counter.
    private static let takeCounter = """
        INSERT INTO sqlite_sequence (name, seq)
        SELECT 'MS_TableOperations', 0
        WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'MS_TableOperations');
        UPDATE sqlite_sequence
        SET seq = max(seq, coalesce(
            (SELECT CAST("value" AS INTEGER) FROM "MS_TableConfig" WHERE "id" = 'operation|last'),
            0
        ))
        WHERE name = 'MS_TableOperations';
        DELETE FROM "MS_TableConfig" WHERE "id" = 'operation|last'
        """

    /// Removes the errors of the original SDK, whose operations are sent again.
    private static let splitErrors = """
        DELETE FROM "MS_TableOperationErrors"
        WHERE "operationId" NOT IN (SELECT "id" FROM "MS_TableOperations" WHERE "state" = 2);
        UPDATE "MS_TableOperationErrors"
        SET "item" = json_extract(CAST("properties" AS TEXT), '$.item'),
            "serverItem" = json_extract(CAST("properties" AS TEXT), '$.serverItem'),
            "properties" = CAST(
                json_remove(CAST("properties" AS TEXT), '$.item', '$.serverItem') AS BLOB
            )
        WHERE json_valid(CAST("properties" AS TEXT))
        """
}
