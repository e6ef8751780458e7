// ClockWatch: reports commits of other servers.
//
// It reads the clocks a few times a second, and only their values count. A notification of PostgreSQL just makes it
// read at once; without notifications, as through a pooler, changes are reported later. While the server is idle it
// reads a few times a minute, so that the database can be suspended.

import Dispatch
import Foundation
import Synchronization
import TidelinePostgres
import TidelineServerCore

/// A thread that notices the commits of other servers.
final class ClockWatch: Sendable {
    private let address: PostgresAddress
    private let timestamps: ReportedTimestamps
    private let timeline: TimelineWatch
    private let log: ServerLog
    private let activity: StoreActivity
    private let isStopped = Atomic(false)

    /// The pause between two reads if there is no notification, in milliseconds.
    private let pause: Int32
    static let usualPause: Int32 = 250
    /// The pause between reads while the server is idle, in milliseconds.
    private static let idlePause: UInt64 = 20_000
    /// The factor for the pause before it reconnects while the server is idle.
    private static let idleTries = 20.0
    /// The pause after a notification, in milliseconds, which is short because the next commit may not send one.
    private static let soon: Int32 = 20

    init(
        _ address: PostgresAddress,
        timestamps: ReportedTimestamps,
        timeline: TimelineWatch,
        pause: Int32,
        activity: StoreActivity,
        log: ServerLog
    ) {
        self.pause = pause
        self.activity = activity
        self.address = address
        self.timestamps = timestamps
        self.timeline = timeline
        self.log = log
        let thread = Thread { [self] in serve() }
        thread.name = "tideline-watch"
        thread.start()
    }

    func stop() { isStopped.store(true, ordering: .relaxed) }

    private func serve() {
        var link = PostgresLink(address, log: .silent) { [timeline] in try timeline.greet($0) }
        var next = pause
        while !isStopped.load(ordering: .relaxed) {
            do {
                next = try check(link.connection(), next) ? Self.soon : pause
            } catch {
                link.endTransaction()
                Uptime.sleep(seconds: Double(pause) / 1000 * (activity.isIdle ? Self.idleTries : 1))
            }
        }
    }

    /// Reads the clocks and waits for this many milliseconds; returns whether a notification requests another read.
    private func check(_ connection: PostgresConnection, _ wait: Int32) throws -> Bool {
        let now = Uptime.now()
        // This is sent each time, because a pooler may have switched to another server connection.
        let results = try connection.pipeline([
            PostgresStatement("LISTEN tideline"),
            PostgresStatement(PostgresSchema.readTimestamps),
            PostgresStatement(HistoryRow.query),
        ])
        // A dump may be restored under open connections, so the histories are compared before any timestamp is
        // reported.
        guard timeline.isKnown(HistoryRow(results[2])) else {
            try timeline.greet(connection)
            return true
        }
        timestamps.report(TableTimestamp.read(results[1]))
        if connection.takeNotifications() { return true }
        var socket = pollfd(fd: connection.socket, events: Int16(POLLIN), revents: 0)
        var isReadable = poll(&socket, 1, wait) > 0
        // Checking whether the server is still idle needs no query.
        while !isReadable, activity.isIdle, Uptime.now() &- now < Self.idlePause * 1_000_000,
            !isStopped.load(ordering: .relaxed)
        {
            isReadable = poll(&socket, 1, pause) > 0
        }
        return connection.takeNotifications() && isReadable
    }
}
