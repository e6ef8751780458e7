// SQLiteStoreFormat: the step from the queue of an older file to the present one, in one
// transaction: the file is of the one format or of the other.
//
// Format 1 kept an operation as one JSON document, and the server rows behind the operations in
// a table of their own. So does a store of the original SDK, without a mark: its operations were
// never sent, as far as it says, and its updates send the whole row.

import TidelineCore
import TidelineSQLite

enum SQLiteStoreFormat {
    private static let operations = Identifier(SystemTables.operations).quoted

    /// Brings the queue of a file to the present format, if there is one.
    static func upgrade(_ database: Database) throws {
        guard try columns(of: SystemTables.operations, in: database).contains("properties"),
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

    /// The base of a row goes to its first operation.
    ///
    /// What format 1 knew of the outcome of a parked operation was forgotten, so that it counts as
    /// unknown. An entry that nobody can read comes without a kind and with its document as it was:
    /// push parks it with an error that names it, and the others go on.
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

    /// The last id goes from a row of the configuration to SQLite's own counter.
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

    /// Errors of the original belong to operations that it sends again, and go.
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
