// ClockWatch: a thread that sees what other servers commit.
//
// It reads the clocks a few times a second, and only their values count. A notification of PostgreSQL just
// makes it read at once; without notifications, as through a pooler, changes are only reported later. While the
// server is idle it reads a few times a minute, so that the database may sleep.

import Dispatch
import Foundation
import Synchronization
import TidelinePostgres
import TidelineServerCore

final class ClockWatch: Sendable {
    private let address: PostgresAddress
    private let stamps: ReportedStamps
    private let timeline: TimelineWatch
    private let log: ServerLog
    private let activity: StoreActivity
    private let isStopped = Atomic(false)

    /// The pause between reads without a notification, in milliseconds.
    private let pause: Int32
    static let usualPause: Int32 = 250
    /// How often it looks while the server is idle, in milliseconds.
    private static let idlePause: UInt64 = 20_000
    /// How much longer it waits before it tries again to connect while the server is idle.
    private static let idleTries = 20.0
    /// How soon it reads again after a notification: the next commit may not be announced yet.
    private static let soon: Int32 = 20
    /// How long it may look for the last changes alone, in nanoseconds.
    private static let wholeTime: UInt64 = 1_000_000_000
    /// After reading this many clocks of owners, it waits in any case: a table needs only one report.
    private static let ownersMax = 500

    init(
        _ address: PostgresAddress,
        stamps: ReportedStamps,
        timeline: TimelineWatch,
        pause: Int32,
        activity: StoreActivity,
        log: ServerLog
    ) {
        self.pause = pause
        self.activity = activity
        self.address = address
        self.stamps = stamps
        self.timeline = timeline
        self.log = log
        let thread = Thread { [self] in serve() }
        thread.name = "tideline-watch"
        thread.start()
    }

    func stop() { isStopped.store(true, ordering: .relaxed) }

    /// The schedule of the reads.
    private struct Looks {
        var pause: Int32
        /// When it last looked for all that may have come late.
        var lastWholeLook: UInt64 = 0
        /// The time of the database when it did so, in microseconds.
        var lastWholeTime: Int64?
        /// Whether the database has a table for clocks of owners: an older state may have been restored.
        var hasOwners = true
    }

    private func serve() {
        var link = PostgresLink(address, log: .silent) { [timeline] in try timeline.greet($0) }
        var looks = Looks(pause: pause)
        while !isStopped.load(ordering: .relaxed) {
            do {
                looks.pause = try look(link.connection(), &looks) ? Self.soon : pause
            } catch {
                if (error as? PostgresError)?.state == "42P01" { looks.hasOwners = false }
                link.settle()
                Uptime.sleep(seconds: Double(pause) / 1000 * (activity.isIdle ? Self.idleTries : 1))
            }
        }
    }

    /// Reads the clocks and waits; returns whether a notification asks for another read.
    private func look(_ connection: PostgresConnection, _ looks: inout Looks) throws -> Bool {
        let now = Uptime.now()
        let isWhole = looks.pause != Self.soon || now &- looks.lastWholeLook > Self.wholeTime
        let time = isWhole ? OwnerClocks.lookTime : OwnerClocks.soonTime
        if !looks.hasOwners { looks.hasOwners = try !OwnerClocks.isMissing(connection) }
        // Again each time: a pooler may have given another connection of the server.
        let results = try connection.pipeline([
            PostgresStatement("LISTEN tideline"),
            PostgresStatement("SELECT \(OwnerClocks.statementTime)"),
            PostgresStatement(PostgresSchema.readStamps(time, ofOwners: looks.hasOwners)),
            PostgresStatement(HistoryRow.query),
        ])
        // A dump may be restored under open connections: compare before any stamp is reported.
        guard timeline.isKnown(HistoryRow(results[3])) else {
            try timeline.greet(connection)
            return true
        }
        let found = ClockStamp.read(results[2])
        stamps.report(found)
        if isWhole {
            let before = looks.lastWholeTime
            looks.lastWholeLook = now
            looks.lastWholeTime = results[1].integer(0, 0)
            // By the database's clock: that of a machine that stood still may have stood still, too.
            if let before, results[1].integer(0, 0) - before > OwnerClocks.awayTime {
                stamps.tellListeners()
            }
        }
        if found.lazy.filter({ $0.key.owner != nil }).count > Self.ownersMax {
            Uptime.sleep(seconds: Double(pause) / 1000)
        }
        if connection.takeNotifications() { return true }
        var socket = pollfd(fd: connection.socket, events: Int16(POLLIN), revents: 0)
        var isReadable = poll(&socket, 1, looks.pause) > 0
        // Only this machine is asked whether the server still is idle.
        while !isReadable, activity.isIdle, Uptime.now() &- now < Self.idlePause * 1_000_000,
            !isStopped.load(ordering: .relaxed)
        {
            isReadable = poll(&socket, 1, pause) > 0
        }
        return connection.takeNotifications() && isReadable
    }
}
