// PostgresLink: the connection of a thread, which is opened when it is first needed and again after it broke.

import Synchronization
import TidelinePostgres
import TidelineServerCore

/// The connection of a thread, which is reopened after it broke.
struct PostgresLink {
    private let address: PostgresAddress
    /// Decides whether statements are prepared; nil if they never are.
    private let keeping: StatementKeeping?
    private let log: ServerLog
    /// Called with each new connection before it is used.
    private let greet: @Sendable (PostgresConnection) throws -> Void
    private var open: PostgresConnection?
    private var failure: (error: PostgresError, until: UInt64)?
    private var pause: UInt64 = 0

    init(
        _ address: PostgresAddress,
        keeping: StatementKeeping? = nil,
        log: ServerLog,
        greet: @escaping @Sendable (PostgresConnection) throws -> Void = { _ in }
    ) {
        self.address = address
        self.keeping = keeping
        self.log = log
        self.greet = greet
    }

    private static let pauseMin: UInt64 = 100_000_000
    private static let pauseMax: UInt64 = 2_000_000_000

    /// Returns the open connection, or connects.
    ///
    /// For some time after a failed attempt to connect, it throws without trying again.
    mutating func connection() throws -> PostgresConnection {
        if let open { return open }
        if let failure, Uptime.now() < failure.until {
            throw ServerError.databaseAway
        }
        do {
            let created = try PostgresConnection(address)
            try greet(created)
            try keeping?.begin(created)
            if failure != nil {
                log.write(.info, "the database responds again", ["at": address.description])
            }
            open = created
            failure = nil
            pause = 0
            return created
        } catch let error as PostgresError {
            if failure == nil {
                log.write(
                    .error,
                    "the database cannot be reached",
                    ["at": address.description, "cause": error.description]
                )
            }
            pause = min(max(pause * 2, Self.pauseMin), Self.pauseMax)
            failure = (error, Uptime.now() + pause)
            throw ServerError.databaseAway
        }
    }

    /// Ends an open transaction, and closes a broken connection.
    mutating func endTransaction() {
        guard let connection = open, !connection.endTransaction() else { return }
        if connection.fault == .missing { keeping?.end(log) }
        open = nil
    }

    mutating func close() { open = nil }
}

/// The decision whether the connections of a store prepare statements.
///
/// They do, unless there is a pooler. An undetected pooler causes an error before the statement is executed;
/// later connections then no longer prepare statements.
final class StatementKeeping: Sendable {
    private let isOver = Mutex(false)
    private let trustsPoolers: Bool

    init(trustsPoolers: Bool) { self.trustsPoolers = trustsPoolers }

    /// Called with each new connection before it is used.
    func begin(_ connection: PostgresConnection) throws {
        guard !isOver.withLock({ $0 }) else { return }
        try connection.keepStatements(trustsPoolers: trustsPoolers)
    }

    /// Records that a connection lacks a statement that was prepared on it.
    func end(_ log: ServerLog) {
        let wasOver = isOver.withLock { isOver in
            defer { isOver = true }
            return isOver
        }
        guard !wasOver else { return }
        log.write(
            .warning,
            "prepared statements are disabled",
            ["cause": "a connection pooler gives each transaction another database connection"]
        )
    }
}
