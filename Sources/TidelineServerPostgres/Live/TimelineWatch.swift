// TimelineWatch: notices lost commits.
//
// The database stores the history that its servers accepted (HistoryRow): cluster, timeline, database, and a random
// word of the first server. On each new connection, writers first compare it with the identity that PostgreSQL
// reports. The first server on another history stores the last commit timestamp of each table at its beginning:
//
//     a server that ran before    compares that with the timestamps that it reported: missing ones were lost
//     a server that has started   knows nothing about earlier commits, so it assumes a loss
//
// If commits are lost, the epoch is renewed, once for each history, and all devices pull again.

import Synchronization
import TidelineCore
import TidelinePostgres
import TidelineServerCore

/// A check for lost commits, after a standby was promoted, or a backup or a dump was restored.
final class TimelineWatch: Sendable {
    private let timestamps: ReportedTimestamps
    private let log: ServerLog
    /// The history that this server has accepted.
    private let known = Mutex<String?>(nil)
    /// The function that receives the epoch of the database.
    private let epochListener = Mutex<(@Sendable (String) -> Void)?>(nil)
    /// Why histories cannot be distinguished, as of the last new connection; nil if they can.
    private let fault = Mutex<String?>(nil)

    /// The checks that do not work, as warnings for the operator.
    var warnings: [StoreWarning] {
        guard let reason = fault.withLock({ $0 }) else { return [] }
        return [
            StoreWarning(
                "historyWatchOff",
                "A failover that loses commits cannot be detected, because the server cannot read the timeline "
                    + "of PostgreSQL (\(reason)). \(DatabaseIdentity.remedy)."
            )
        ]
    }

    /// The maximum number of attempts to enter a history that other servers enter at the same time.
    private static let tries = 3

    init(_ timestamps: ReportedTimestamps, log: ServerLog) {
        self.timestamps = timestamps
        self.log = log
    }

    /// Returns whether the row has the history that this server has accepted.
    func isKnown(_ found: HistoryRow) -> Bool {
        known.withLock { known in
            guard let known else { return true }
            return found.value == known && found.isWhole
        }
    }

    /// Sets the function that receives the epoch on each new connection, before the first write on it.
    func listenForEpochs(_ report: @escaping @Sendable (String) -> Void) {
        epochListener.withLock { $0 = report }
    }

    /// Compares the history of a new connection with the accepted one, and reports the epoch.
    ///
    /// The lock is held, so that no timestamp of a new history is reported before the comparison.
    ///
    /// - Throws: ``PostgresError`` if the connection cannot be used.
    func greet(_ connection: PostgresConnection) throws {
        try known.withLock { known in
            try unlessLost(connection) {
                for _ in 0..<Self.tries {
                    if try check(connection, &known) { return }
                }
            }
        }
        try unlessLost(connection) { try reportEpoch(connection) }
    }

    /// Ignores an error that leaves the connection usable: some databases that speak this protocol have no timelines,
    /// and a new one lacks the tables for them.
    private func unlessLost(_ connection: PostgresConnection, _ body: () throws -> Void) throws {
        do {
            try body()
        } catch let error as PostgresError {
            if error.isConnectionLost || connection.isBroken { throw error }
            if connection.isInTransaction { try connection.execute("ROLLBACK") }
        }
    }

    /// Checks the history; returns false if another server entered it first.
    private func check(_ connection: PostgresConnection, _ known: inout String?) throws -> Bool {
        let identity = try DatabaseIdentity(connection)
        warnIfUndetectable(identity)
        let row = try HistoryRow.read(connection)
        if let value = row.value, row.isWhole, HistoryRow.identity(of: value) == identity.text {
            guard let before = known else {
                known = value
                return true
            }
            if before != value {
                // Another server was first, and has stored the last timestamps of the tables.
                let lost = try lostTables(value, connection)
                try handleNewTimeline(lost, before, value, connection)
                known = value
                return true
            }
            let lost = try missingNow(connection)
            guard !lost.isEmpty else { return true }
            return try enter(identity, row, &known, lost: lost, connection)
        }
        return try enter(identity, row, &known, lost: nil, connection)
    }

    /// Accepts the history that was found, and renews the epoch if commits are lost.
    ///
    /// Both happen in one transaction, so that another server repeats them if this one ends before the commit.
    ///
    /// `lost` contains the tables that lost commits; if it is nil, they are determined.
    ///
    /// - Returns: False if another server entered the history first.
    /// - Throws: ``PostgresError``
    private func enter(
        _ identity: DatabaseIdentity,
        _ row: HistoryRow,
        _ known: inout String?,
        lost: [String]?,
        _ connection: PostgresConnection
    ) throws -> Bool {
        try connection.execute(
            "BEGIN; SET LOCAL tideline.own = 'on'"
        )
        let entered = try HistoryRow.put(identity, after: row.value, connection)
        guard let entered else {
            try connection.execute("ROLLBACK")
            return false
        }
        try connection.run(PostgresSchema.putTimeline, [.text(entered)])
        if let before = known {
            let lost = try lost ?? lostTables(entered, connection)
            try handleNewTimeline(lost, before, entered, connection)
        } else if let before = row.value {
            try connection.run(PostgresSchema.renewEpochOfTimeline, [.text(entered)])
            log.write(
                .error,
                "the history of the database changed; all clients pull from the start",
                [
                    "before": before, "timeline": entered,
                    "cause": row.isWhole
                        ? "a failover or a restore while no server ran" : "a dump was restored",
                ]
            )
        }
        try connection.execute("COMMIT")
        known = entered
        return true
    }

    /// Renews the epoch if tables have lost commits, and logs it.
    private func handleNewTimeline(
        _ lost: [String],
        _ before: String,
        _ found: String,
        _ connection: PostgresConnection
    ) throws {
        guard !lost.isEmpty else {
            log.write(
                .warning,
                "the database has a new timeline; no commits were lost",
                ["before": before, "timeline": found]
            )
            return
        }
        try connection.run(PostgresSchema.renewEpochOfTimeline, [.text(found)])
        timestamps.forget()
        log.write(
            .error,
            "the database lost commits; all clients pull from the start",
            ["before": before, "timeline": found, "tables": lost.joined(separator: ",")]
        )
    }

    private func reportEpoch(_ connection: PostgresConnection) throws {
        guard let report = epochListener.withLock({ $0 }) else { return }
        let result = try connection.run(PostgresSchema.readEpoch)
        if result.count > 0 { report(result.text(0, 0)) }
    }

    private func warnIfUndetectable(_ identity: DatabaseIdentity) {
        let reason = identity.timelineFault
        let isNew = fault.withLock { fault in
            defer { fault = reason }
            return fault == nil && reason != nil
        }
        guard isNew else { return }
        log.write(
            .warning,
            "a failover that loses commits cannot be detected: the role cannot read the timeline",
            ["cause": reason ?? "", "do": DatabaseIdentity.remedy]
        )
    }

    // MARK: - Reported timestamps

    /// Returns the tables whose reported timestamp is later than the one they had when the history began.
    private func lostTables(_ found: String, _ connection: PostgresConnection) throws -> [String] {
        let result = try connection.run(PostgresSchema.readTimelineTimestamps, [.text(found)])
        let pairs = (0..<result.count).map { (result.text($0, 0), result.integer($0, 1)) }
        let begin = Dictionary(pairs, uniquingKeysWith: max)
        return timestamps.reported.filter { $0.value > begin[$0.key] ?? 0 }.keys.sorted()
    }

    /// Returns the tables with reported timestamps that are later than their clocks.
    ///
    /// Within one history, this means that a backup was restored that left PostgreSQL's own identifiers unchanged.
    private func missingNow(_ connection: PostgresConnection) throws -> [String] {
        // This is read before the query, because commits continue.
        let reported = timestamps.reported
        let found = try connection.run("SELECT \"table\", \"stamp\" FROM tideline.clocks")
        return (0..<found.count).compactMap { place in
            let table = found.text(place, 0)
            guard let timestamp = reported[table] else { return nil }
            return found.integer(place, 1) < timestamp ? table : nil
        }
        .sorted()
    }
}
