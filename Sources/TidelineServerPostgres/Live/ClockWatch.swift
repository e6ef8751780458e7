// ClockWatch: a thread that sees what other servers commit.
//
// It looks at the clocks a few times a second: that is the truth. A notification of PostgreSQL only
// makes it look at once; where there is none, as behind a pooler, nothing is lost but time.

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
    private let isStopped = Atomic(false)

    /// How often it looks, in milliseconds, without being told.
    private static let pause: Int32 = 250
    /// How soon it looks again after it was told: what is committed next may not be announced yet.
    private static let soon: Int32 = 20

    init(
        _ address: PostgresAddress,
        stamps: ReportedStamps,
        timeline: TimelineWatch,
        log: ServerLog
    ) {
        self.address = address
        self.stamps = stamps
        self.timeline = timeline
        self.log = log
        let thread = Thread { [self] in serve() }
        thread.name = "tideline-watch"
        thread.start()
    }

    func stop() { isStopped.store(true, ordering: .relaxed) }

    private func serve() {
        var link = PostgresLink(address, log: .silent) { [timeline] in try timeline.greet($0) }
        var pause = Self.pause
        while !isStopped.load(ordering: .relaxed) {
            do {
                pause = try look(link.connection(), after: pause) ? Self.soon : Self.pause
            } catch {
                link.settle()
                Uptime.sleep(seconds: Double(Self.pause) / 1000)
            }
        }
    }

    /// Looks at the clocks and waits; returns whether it was told to look again.
    private func look(_ connection: PostgresConnection, after pause: Int32) throws -> Bool {
        // Again each time: a pooler may have given another connection of the server.
        let results = try connection.pipeline([
            PostgresStatement("LISTEN tideline"), PostgresStatement(PostgresSchema.readStamps),
        ])
        let rows = results[1]
        stamps.report(
            (0..<rows.count).map { row in
                TableStamp(table: rows.text(row, 0), stamp: rows.integer(row, 1))
            }
        )
        if connection.takeNotifications() { return true }
        var socket = pollfd(fd: connection.socket, events: Int16(POLLIN), revents: 0)
        let isReadable = poll(&socket, 1, pause) > 0
        return connection.takeNotifications() && isReadable
    }
}
