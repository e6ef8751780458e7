// BackupCheck: the backups of a database.
//
// A base backup and the log after it restore every commit; a dump restores only the state at the time of the dump.
// PostgreSQL reports its log's archive and the receivers of its stream. It does not know which base backups exist and
// whether they can be read: restoring one is the only test of that.

import TidelinePostgres

/// A check of whether the database could be restored after its server is lost.
package struct BackupCheck: Sendable {
    package private(set) var lines: [String]
    /// Whether the write-ahead log (WAL) is archived or streamed.
    package private(set) var isReady = false

    init(_ connection: PostgresConnection, at place: String) throws {
        lines = [
            "A database in PostgreSQL is backed up by PostgreSQL: a base backup, and the log (WAL) that "
                + "follows it.",
            "  pg_basebackup -d postgres://…\(place.dropFirst("postgres://".count)) -D DIRECTORY "
                + "-Ft -z -X stream",
            "  archive_mode = on and archive_command, or pg_receivewal on another machine",
            "After a restore: tideline restored --database postgres://…",
            "",
        ]
        let archive = try Archive(connection)
        lines.append("WAL archive: \(archive.text)")
        let receivers = try connection.run(Self.countReceivers).integer(0, 0)
        lines.append(
            receivers > 0
                ? "WAL streaming: \(receivers) now (pg_receivewal or a standby)"
                : "WAL streaming: no receiver"
        )
        lines.append("last base backup: \(try Self.lastBackup(connection))")
        isReady = archive.isWorking || receivers > 0
        lines.append(
            isReady
                ? "Commits are also stored elsewhere. Test a restore regularly."
                : "There is no copy: if this server is lost, so is its data."
        )
    }

    private static let countReceivers = """
        SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'
        """

    /// Returns when the last base backup was made, if the log still contains its history file.
    private static func lastBackup(_ connection: PostgresConnection) throws -> String {
        do {
            let found = try connection.run(
                """
                SELECT max(modification)::timestamptz(0)::text FROM pg_ls_waldir()
                WHERE name LIKE '%.backup'
                """
            )
            return found.isNull(0, 0) ? "none recorded in the WAL" : found.text(0, 0)
        } catch let error as PostgresError where error.state == "42501" {
            return "unknown, because the role lacks permission (GRANT pg_monitor)"
        }
    }

    private struct Archive {
        let text: String
        let isWorking: Bool

        init(_ connection: PostgresConnection) throws {
            let mode = try connection.run("SELECT current_setting('archive_mode')").text(0, 0)
            let found = try connection.run(
                """
                SELECT last_archived_time::timestamptz(0)::text, last_failed_time::timestamptz(0)::text,
                    coalesce(last_failed_time > last_archived_time, last_failed_time IS NOT NULL)
                FROM pg_stat_archiver
                """
            )
            if mode == "off" {
                (text, isWorking) = ("off", false)
            } else if found.boolean(0, 2) {
                (text, isWorking) = ("failing since \(found.text(0, 1))", false)
            } else if found.isNull(0, 0) {
                (text, isWorking) = ("on, but nothing was archived yet", false)
            } else {
                (text, isWorking) = ("on, last archived at \(found.text(0, 0))", true)
            }
        }
    }
}

extension PostgresMaintenance {
    /// Returns how the database is backed up, and which parts are configured.
    package func backups() throws -> BackupCheck {
        try connected { try BackupCheck($0, at: address.description) }
    }
}
