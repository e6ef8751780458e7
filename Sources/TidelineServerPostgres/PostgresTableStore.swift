// PostgresTableStore: tables in a PostgreSQL database, shared by any number of servers.

import Foundation
import Synchronization
package import TidelineCore
import TidelinePostgres
package import TidelineServerCore

/// Tables in a PostgreSQL database.
package final class PostgresTableStore: TableStore {
    package struct Options: Sendable {
        package var limits = ServerLimits()
        /// The number of concurrent reads, each on its own connection; at least two.
        package var readers = max(2 * ProcessInfo.processInfo.activeProcessorCount, 4)
        /// How often expired data is purged.
        package var purgeInterval: Duration = .seconds(600)
        /// The address of a PostgreSQL replica for pages; nil for none.
        package var replica: String?
        /// The maximum time that a page waits for commits that the replica does not have yet.
        package var replicaPatience: Duration = .milliseconds(150)
        /// The time for which the replica is not used after it failed to answer a page.
        package var replicaRest: Duration = .seconds(1)
        /// Returns the time in microseconds since 1970; nil for the time of the database, which all servers
        /// share.
        package var now: (@Sendable () -> Int64)?
        /// A clock that is never set, in microseconds.
        package var steady = ServerEnvironment.live.steady
        package var log = ServerLog.silent
        package var times = WriteTimes()
        /// The time between two checks for external writes if there is no notification, in milliseconds.
        package var checkPause = ClockWatch.usualPause
        package var metrics = StoreMetrics()
        /// Returns whether a caller listens to changes.
        ///
        /// If no caller listens and no request arrives, the database is queried only a few times a minute.
        package var isListenedTo: @Sendable () -> Bool = { true }
        /// Whether statements are prepared even behind a pooler.
        package var trustsPoolers = false

        package init() {}
    }

    private let primary: PostgresReads
    private let replica: ReplicaReads?
    private let writer: PostgresWriter
    private let watch: ClockWatch
    private let activity: StoreActivity
    private let timestamps: ReportedTimestamps
    private let tables = DerivedTables()
    private let counted = Mutex(CountedClocks())
    private let stopped = Mutex(false)
    private let writeProbe: WriteProbe
    private let limits: ServerLimits
    private let times: WriteTimes
    private let timeline: TimelineWatch
    private let now: (@Sendable () -> Int64)?
    private let log: ServerLog
    private let address: PostgresAddress

    /// Returns why a server cannot use any database at this address; nil if it can.
    package static func fault(ofAddress url: String) -> String? {
        guard let attributes = try? PostgresAddress(url).sessionAttributes,
            !["read-write", "primary"].contains(attributes)
        else { return nil }
        return """
            with target_session_attrs=\(attributes) the server may connect to a standby, which rejects writes. \
            Leave it out, or use 'read-write' or 'primary'
            """
    }

    /// Returns host and database of an address, without user and password.
    package static func place(ofAddress url: String) -> String {
        (try? PostgresAddress(url).description) ?? "postgres"
    }

    /// Returns why an address cannot be parsed; nil if it can.
    package static func mistake(inAddress url: String) -> String? {
        do {
            _ = try PostgresAddress(url)
            return nil
        } catch {
            return "\(error)"
        }
    }

    /// Creates a store after checking that the database can be reached.
    ///
    /// - Throws: ``DatabaseError``, which does not contain the password.
    package init(url: String, options: Options = Options()) throws {
        let replicaAddress: PostgresAddress?
        do {
            replicaAddress = try options.replica.map { try PostgresAddress($0, isForWrites: false) }
        } catch let error as PostgresError {
            throw DatabaseError(.unavailable, "replica: \(error)")
        }
        do {
            address = try PostgresAddress(url)
            let connection = try PostgresConnection(address)
            let version = connection.serverVersion
            guard version >= Self.versionMin else {
                throw DatabaseError(
                    .unavailable,
                    "\(address): PostgreSQL \(Self.versionMin / 10_000) or newer is required, "
                        + "but this is version \(version / 10_000)."
                )
            }
            let encoding = try connection.run("SELECT current_setting('server_encoding')").text(
                0,
                0
            )
            guard encoding == "UTF8" else {
                throw DatabaseError(
                    .unavailable,
                    "\(address): the encoding of the database is \(encoding), which cannot store all characters. Create a "
                        + "database with ENCODING 'UTF8'."
                )
            }
        } catch let error as PostgresError {
            throw DatabaseError(.unavailable, error.description + Self.remedy(error))
        }
        limits = options.limits
        now = options.now
        log = options.log
        writeProbe = WriteProbe(now: options.now ?? ServerEnvironment.live.now, log: options.log)
        timestamps = ReportedTimestamps()
        let keeping = StatementKeeping(trustsPoolers: options.trustsPoolers)
        primary = PostgresReads(address, keeping, options)
        if let replicaAddress {
            let keeping = StatementKeeping(trustsPoolers: options.trustsPoolers)
            let reads = PostgresReads(replicaAddress, keeping, options)
            replica = ReplicaReads(reads, timestamps, options)
        } else {
            replica = nil
        }
        activity = StoreActivity(isListenedTo: options.isListenedTo)
        let timeline = TimelineWatch(timestamps, log: options.log)
        self.timeline = timeline
        writer = PostgresWriter(
            limits: options.limits,
            retention: RetentionRun(
                PostgresPurge(limits: options.limits, now: options.now),
                steady: options.steady,
                log: options.log,
                metrics: options.metrics
            ),
            purgeInterval: options.purgeInterval,
            log: options.log,
            metrics: options.metrics
        ) { [address, timestamps, tables] in
            PostgresWriteSession(
                PostgresLink(address, keeping: keeping, log: options.log) {
                    try timeline.greet($0)
                },
                tables,
                limits: options.limits,
                now: options.now,
                times: options.times,
                timestamps: timestamps,
                log: options.log,
                metrics: options.metrics
            )
        }
        times = options.times
        watch = ClockWatch(
            address,
            timestamps: timestamps,
            timeline: timeline,
            pause: options.checkPause,
            activity: activity,
            log: options.log
        )
    }

    /// Returns how to fix an error that prevents all writes.
    private static func remedy(_ error: PostgresError) -> String {
        // The messages of libpq for errors that do not come from the database.
        let words = ["session is read-only", "server is in hot standby mode"]
        guard error.state == "25006" || words.contains(where: error.description.contains) else {
            return ""
        }
        return ". No host of the address accepts writes: they are standbys, or "
            + "default_transaction_read_only is on. Add the host of the primary."
    }

    /// The minimum supported version.
    private static let versionMin = 140_000

    package func prepare(
        _ definitions: [TableDefinition],
        filtered: Set<String>,
        isComplete: Bool
    ) async throws -> [TableDefinition] {
        let (stored, steps): ([TableDefinition], [SchemaStep])
        do {
            (stored, steps) = try await writer.run { [now, writer, timeline] connection in
                let newest = try PostgresReceipts.newest(connection)
                let prepared = try PostgresSchemaChange(connection: connection, now: now)
                    .prepare(definitions, filtered: filtered, isComplete: isComplete)
                // The connection may be older than the row for the history.
                try timeline.greet(connection)
                try writer.retention.begin(newest, connection)
                return prepared
            }
        } catch let error as PostgresError {
            throw DatabaseError(.unavailable, "\(address): \(error)\(Self.remedy(error))")
        }
        for step in steps {
            log.write(step.isNotable ? .info : .debug, "tables", ["change": step.description])
        }
        writer.queue.watch(stored, beginsAtOnce: true)
        return stored
    }

    // MARK: - Reads

    package func list(_ request: ListRequest, in table: Table) async throws -> ListPage {
        let table = derived(table)
        if request.tie != nil {
            try await markCounted(of: table, request)
        }
        let read = PostgresListRead(request, table)
        return try await page(of: request.caller, in: table) { try read.run($0) }
    }

    package func changes(_ request: ChangeRequest, in table: Table) async throws -> ChangePage {
        let table = derived(table)
        let read = PostgresChangesRead(request, table)
        return try await page(of: request.caller, in: table) { try read.run($0) }
    }

    package func digest(_ request: DigestRequest, in table: Table) async throws -> TableDigest {
        let table = derived(table)
        let read = PostgresDigestRead(request, table)
        return try await page(of: request.caller, in: table) { try read.run($0) }
    }

    package func clock(of table: Table) async throws -> TableClock {
        let table = derived(table)
        return try await read { read in
            try table.clock(read.one(table.clockStatement), read)
        }
    }

    package func stored(_ name: String) async throws -> TableDefinition? {
        try await read { try PostgresSchemaChange.storedSoon(name, $0.connection) }
    }

    package func read(
        _ id: String,
        view: QueryExpression?,
        in table: Table,
        reservation: RowReservation?
    ) async throws -> StoredRow? {
        try await image(id, in: table) { image in
            guard image.isVisible(in: view, of: table) else { return nil }
            try reservation?.take(bytes: image.bytes, of: image.state)
            return image.stored(in: table)
        }
    }

    package func image(
        _ id: String,
        view: QueryExpression?,
        in table: Table
    ) async throws -> RowImage? {
        try await image(id, in: table) { $0.isVisible(in: view, of: table) ? $0 : nil }
    }

    package func databaseDefaults(
        of places: [Int],
        in table: Table
    ) async throws -> [Int: SQLValue] {
        let derived = derived(table)
        do {
            return try await read { read in
                let result = try read.one(derived.databaseDefaults(of: places))
                return derived.databaseDefaults(result, of: places)
            }
        } catch let error as PostgresError {
            throw PostgresRejection.ofWrite(error)
        }
    }

    /// Reads a row; returns the result of `body` for it, or nil if it does not exist.
    private func image<Result: Sendable>(
        _ id: String,
        in table: Table,
        _ body: @escaping @Sendable (RowImage) throws -> Result?
    ) async throws -> Result? {
        let derived = derived(table)
        let statement = PostgresStatement(
            """
            SELECT (SELECT "schema" FROM tideline.tables WHERE "name" = $2), \(derived.cells())
            FROM \(derived.quoted) WHERE "id" = $1
            """,
            values: [.text(id), .text(derived.clock)]
        ).prepared
        return try await read(in: derived) { read in
            let result = try read.one(statement)
            guard result.count > 0 else { return nil as Result? }
            try derived.check(form: result.integer(0, 0), read.connection)
            try derived.checkTypes(result, from: 1)
            return try body(derived.image(result, 0, from: 1))
        }
    }

    package func isNew(_ key: RepeatKey) async throws -> Bool {
        let (limits, now) = (limits, now)
        return try await read { read in
            let name = LedgerKey(key)
            let results = try read.all([
                LedgerKey.read([name]), LedgerKey.readHorizons([name.caller]),
                PostgresStatement(PostgresClock.now).prepared,
            ])
            let time = now?() ?? results[2].integer(0, 0)
            let horizon = LedgerKey.horizons(results[1])[name.caller]
            return results[0].count == 0 && !key.isAhead(now: time)
                && !key.mayBeForgotten(now: time, days: limits.ledgerDays, horizon: horizon)
        }
    }

    package func epoch() async throws -> String {
        try await read { read in
            let result = try read.one(PostgresStatement(PostgresSchema.readEpoch))
            return result.count > 0 ? result.text(0, 0) : ""
        }
    }

    package func sizes() async throws -> [StoreSize] {
        try await read { read in
            let result = try read.one(PostgresStatement(PostgresSchema.readSizes))
            guard result.count > 0 else { return [] }
            return [
                StoreSize("database", result.integer(0, 0)),
                StoreSize("ledger", result.integer(0, 1)),
            ]
        }
    }

    package func watch(_ report: @escaping @Sendable ([TableTimestamp]) -> Void) async throws {
        let found = try await read { read in
            try TableTimestamp.read(read.one(PostgresStatement(PostgresSchema.readTimestamps)))
        }
        timestamps.report(found)
        timestamps.listen(report)
    }

    package func watchEpoch(_ report: @escaping @Sendable (String) -> Void) {
        timeline.listenForEpochs(report)
    }

    /// Reads from the primary.
    private func read<Result: Sendable>(
        of caller: ReadCaller = .unknown,
        in table: PostgresTable? = nil,
        _ body: @escaping @Sendable (PostgresRead) throws -> Result
    ) async throws -> Result {
        try await primary.run(of: caller, in: table, until: Uptime.after(limits.queryTime), body)
    }

    /// Reads a page, from the replica if it has all commits of the primary.
    private func page<Page: Sendable>(
        of caller: ReadCaller,
        in table: PostgresTable,
        _ body: @escaping @Sendable (PostgresRead) throws -> Page
    ) async throws -> Page {
        let end = Uptime.after(limits.queryTime)
        if let replica, replica.isUsable {
            let wanted = try await primary.run(of: caller, in: table, until: end) { read in
                try table.clock(read.one(table.clockStatement), read)
            }
            let page = try await replica.page(wanted, table.clock, of: caller, until: end, body)
            if let page { return page }
        }
        return try await primary.run(of: caller, in: table, until: end, body)
    }

    // MARK: - Writes

    package func write(_ batch: WriteBatch) async throws -> [GroupOutcome] {
        let tables = batch.groups.map { $0.writes.map { derived($0.table) } }
        let related = batch.relatedTables.map(derived)
        return try await writer.write(batch, tables, related: related)
    }

    package func continueCascades(in graph: @escaping @Sendable () -> ReferenceGraph?) async {
        writer.continueCascades(in: graph)
    }

    /// Records in the clock that a reader pages by counting the rows of a millisecond.
    ///
    /// From then on, all servers count the rows that leave a millisecond. If that cannot be recorded, the read is
    /// rejected: its next page would skip rows, because the number of departed rows would be unknown.
    private func markCounted(of table: PostgresTable, _ request: ListRequest) async throws {
        let (time, caller) = (Uptime.now(), request.caller)
        let clock = table.clock
        guard !counted.withLock({ $0.isKnown(clock, at: time) }) else { return }
        let flag = CountingFlag(clock, now)
        let age = try await read(of: caller) { try flag.age($0) } ?? .max
        do {
            if age >= CountingFlag.youngTime {
                // The writer does not do this: another transaction may hold the clock, and only this reader should
                // wait for it.
                var isPut = false
                for _ in 0..<CountingFlag.tries where !isPut {
                    isPut = try await read(of: caller) { try flag.put($0) }
                }
                guard isPut else { throw ServerError.writesWait }
            }
        } catch is ServerError where age < CountingFlag.oldTime {
            // The current flag is valid for long enough.
        }
        counted.withLock { $0.take(clock, at: time) }
    }

    package func checkWritable() async throws {
        guard !stopped.withLock({ $0 }) else { throw ServerError.stopping }
        guard writer.queue.length < limits.writeQueue else { throw ServerError.tooManyWrites }
        // The statement does not wait long for another transaction's lock.
        let settings = WriteStatements.settings(times, lock: times.briefLock)
        try await writeProbe.check { [writer] in
            try await writer.run {
                _ = try $0.pipeline([settings, PostgresStatement(PostgresSchema.touchState)])
            }
        }
    }

    /// Removes some of each kind of expired data.
    package func purge() async throws { try await writer.purge() }

    package var writeQueueLength: Int { writer.queue.length }

    package var warnings: [StoreWarning] { timeline.warnings }

    /// The size is 0, because PostgreSQL manages its own log.
    package var logBytes: Int { 0 }

    package func stop() async {
        let wasStopped = stopped.withLock { stopped in
            defer { stopped = true }
            return stopped
        }
        guard !wasStopped else { return }
        watch.stop()
        await primary.stop()
        replica?.stop()
        await writer.stop()
    }

    // MARK: - Tables

    /// Returns the values derived from a table, cached for as long as its definition is the same.
    private func derived(_ table: Table) -> PostgresTable {
        activity.touch()
        return tables.derived(table)
    }
}
