// HistoryRow: recognizes a restored dump.
//
// The row contains the id of the transaction that wrote it. Restoring a dump writes all rows again, so that the row of
// a restored dump contains an id other than that of its transaction.

import TidelineCore
import TidelinePostgres

/// The identity of a database's history, as PostgreSQL reports it.
struct DatabaseIdentity: Hashable {
    /// The identifier of the cluster; initdb and pg_upgrade assign a new one.
    private let system: String?
    /// The number of the timeline; each promotion of a standby and each point-in-time recovery starts a new one.
    private let timeline: String?
    private let database: String
    /// PostgreSQL's error if the timeline cannot be read; otherwise nil.
    let timelineFault: String?

    var text: String { "\(system ?? "?")/\(timeline ?? "?")/\(database)" }

    /// Reads the values that the role may read.
    ///
    /// - Throws: ``PostgresError`` if the connection is broken.
    init(_ connection: PostgresConnection) throws {
        system = try Self.first(Self.readSystem, connection).answer
        let (timeline, fault) = try Self.first(Self.readTimeline, connection)
        self.timeline = timeline
        timelineFault = timeline == nil ? fault ?? "it has no timeline" : nil
        database = try Self.first([Self.readDatabase], connection).answer ?? "?"
    }

    /// Returns the result of the first of these queries that the role may run, or the error if it may run none.
    private static func first(
        _ queries: [String],
        _ connection: PostgresConnection
    ) throws -> (answer: String?, fault: String?) {
        var fault: String?
        for query in queries {
            do {
                let result = try connection.run(query)
                if result.count > 0, !result.isNull(0, 0) { return (result.text(0, 0), nil) }
            } catch let error as PostgresError {
                if error.isConnectionLost || connection.isBroken { throw error }
                fault = fault ?? error.message
            }
        }
        return (nil, fault)
    }

    private static let readSystem = [
        "SELECT system_identifier::text FROM pg_control_system()"
    ]

    /// The queries for the timeline; the second one lags behind a promotion until the next checkpoint.
    private static let readTimeline = [
        PostgresSchema.readTimeline,
        "SELECT lpad(upper(to_hex(timeline_id)), 8, '0') FROM pg_control_checkpoint()",
    ]

    private static let readDatabase = """
        SELECT oid::text FROM pg_database WHERE datname = current_database()
        """

    /// The SQL that allows a role to notice a promotion.
    static let remedy = """
        GRANT EXECUTE ON FUNCTION pg_walfile_name(pg_lsn), pg_current_wal_insert_lsn() TO the role of the \
        server; until then run 'tideline restored' after each failover
        """
}

/// The history that the servers of a database have accepted, as the database stores it.
struct HistoryRow: Hashable {
    /// The identity, a random word, and the id of the writing transaction, as one string; nil if the row does
    /// not exist.
    var value: String?
    /// Whether the transaction whose id is in the row has written the row.
    var isWhole: Bool

    static let query = """
        SELECT "value", "xmin"::text = split_part("value", ' ', 3) FROM tideline.state
        WHERE "key" = 'history'
        """

    static func read(_ connection: PostgresConnection) throws -> HistoryRow {
        HistoryRow(try connection.run(query))
    }

    init(_ result: PostgresResult) {
        guard result.count > 0 else {
            value = nil
            isWhole = true
            return
        }
        value = result.text(0, 0)
        isWhole = result.boolean(0, 1)
    }

    /// Returns the identity at the beginning of a history.
    static func identity(of value: String) -> String {
        value.split(separator: " ").first.map(String.init) ?? ""
    }

    /// Writes the row if it has not changed since it was read.
    ///
    /// - Returns: The new value; nil if another server has changed the row in the meantime.
    static func put(
        _ identity: DatabaseIdentity,
        after former: String?,
        _ connection: PostgresConnection
    ) throws -> String? {
        let result = try connection.run(write, [.text(identity.text), .text(former ?? "")])
        return result.count > 0 ? result.text(0, 0) : nil
    }

    /// Writes the row with the lower half of the transaction id, as in `xmin`.
    private static let write = """
        INSERT INTO tideline.state AS s ("key", "value")
        VALUES (
            'history',
            $1::text || ' ' || substr(md5(gen_random_uuid()::text), 1, 16) || ' '
                || mod(pg_current_xact_id()::text::numeric, 4294967296)::text
        )
        ON CONFLICT ("key") DO UPDATE SET "value" = excluded."value" WHERE s."value" = $2::text
        RETURNING "value"
        """

    static let remove = "DELETE FROM tideline.state WHERE \"key\" = 'history'"
}
