// TestServer: a whole server without a socket, and requests to it in one line.

import Foundation
import Synchronization
import Testing
package import TidelineCore
package import TidelineServerCore
import TidelineServerPostgres
package import TidelineServerSQLite
import TidelineTestKit

/// A clock that tests advance.
package final class TestClock: Sendable {
    private let time: Mutex<Int64>
    private let step: Int64

    package init(_ start: Int64 = 1_800_000_000_000_000, step: Int64 = 1000) {
        time = Mutex(start)
        self.step = step
    }

    package func now() -> Int64 {
        time.withLock { time in
            time += step
            return time
        }
    }

    /// The current time; reading it does not advance the clock.
    package var current: Int64 { time.withLock { $0 } }

    package func move(by microseconds: Int64) { time.withLock { $0 += microseconds } }
}

/// An event that tasks can observe.
package final class Flag: Sendable {
    private let state = Mutex(false)

    package init() {}

    package var isSet: Bool { state.withLock { $0 } }

    package func set() { state.withLock { $0 = true } }
}

/// Stops a store when it is no longer referenced: otherwise its threads would keep their connections.
///
/// A database that was created for the store is reused by later tests.
private final class StoreLife: Sendable {
    private let store: any TableStore
    private let slot: DatabaseSlots.Slot
    private let ownDatabase: String?

    init(_ store: any TableStore, _ slot: DatabaseSlots.Slot, ownDatabase: String?) {
        self.store = store
        self.slot = slot
        self.ownDatabase = ownDatabase
    }

    deinit {
        Task { [store, slot, ownDatabase] in
            await store.stop()
            if let ownDatabase { try? PostgresCluster.shared().recycle(ownDatabase) }
            withExtendedLifetime(slot) {}
        }
    }
}

package struct TestServer: Sendable {
    package let handler: RequestHandler
    package let store: any TableStore
    private let life: StoreLife?

    /// The store, for features that only this backend has.
    package var sqlite: SQLiteTableStore {
        get throws { try #require(store as? SQLiteTableStore) }
    }

    /// Whether `send` puts each request into a separate batch, if a batch can express it.
    @TaskLocal package static var usesBatches = false

    package static let todo = TableDefinition(
        "TodoItem",
        columns: [
            ColumnDefinition("text", .string),
            ColumnDefinition("complete", .boolean, nullable: false),
            ColumnDefinition("rank", .integer),
        ]
    )

    /// Whether tests that name no file use PostgreSQL.
    package static let usesPostgres = usesTwoServers || storeName == "postgres"
    /// Whether their requests alternate between two servers on one PostgreSQL.
    private static let usesTwoServers = storeName == "two-servers"
    /// Whether tests that name no file use SQLite in memory.
    package static let usesSQLite = !usesPostgres && !usesMemory
    /// Whether they use ``MemoryTableStore``.
    private static let usesMemory = storeName == "memory"
    private static let storeName = ProcessInfo.processInfo.environment["TIDELINE_STORE"]

    private static func memoryStore(_ options: SQLiteTableStore.Options) -> MemoryTableStore {
        var own = MemoryTableStore.Options()
        own.inline = true
        own.limits = options.limits
        own.now = options.now
        own.steady = options.steady
        own.log = options.log
        own.metrics = options.metrics
        return MemoryTableStore(own)
    }

    private static func store(
        _ options: SQLiteTableStore.Options,
        _ path: String?,
        database url: String?,
        usesTwoServers: Bool,
        briefLock: Int?
    ) throws -> any TableStore {
        guard let url else {
            if usesMemory, path == nil { return memoryStore(options) }
            return try SQLiteTableStore(path: path ?? ":memory:", options: options)
        }
        var own = PostgresTableStore.Options()
        own.limits = options.limits
        own.now = options.now
        own.steady = options.steady
        own.log = options.log
        own.metrics = options.metrics
        own.readers = 2
        if let briefLock { own.times.briefLock = briefLock }
        own.purgeInterval = options.purgeInterval
        let store = try PostgresTableStore(url: url, options: own)
        guard usesTwoServers else { return store }
        return AlternatingStore([store, try PostgresTableStore(url: url, options: own)])
    }

    /// Removes expired data: a part of each kind, or all of it in memory.
    package func purge() async throws {
        if let store = store as? PostgresTableStore { return try await store.purge() }
        if let first = (store as? AlternatingStore)?.stores.first as? PostgresTableStore {
            return try await first.purge()
        }
        try await (store as? MemoryTableStore)?.purge()
        try await (store as? SQLiteTableStore)?.purge()
    }

    /// The number of statements that SQLite knows to be long.
    package var statementsKnownLong: Int { (store as? SQLiteTableStore)?.statementsKnownLong ?? 0 }

    /// Creates a server in memory, with inline execution, unless a path is given; on PostgreSQL in a separate database,
    /// unless the address of one is given.
    ///
    /// `briefLock` is how long a transaction waits for a row there, in milliseconds; `relay` may wrap the store.
    package init(
        _ tables: [TableDefinition] = [TestServer.todo],
        path: String? = nil,
        onPostgres: Bool = TestServer.usesPostgres,
        database: String? = nil,
        briefLock: Int? = nil,
        dynamic: Bool = false,
        clock: TestClock = TestClock(),
        steady: TestClock? = nil,
        limits: ServerLimits = ServerLimits(),
        readers: Int? = nil,
        purgeInterval: Duration? = nil,
        makeID: (@Sendable () -> String)? = nil,
        log: ServerLog = .silent,
        storeLog: ServerLog = .silent,
        exposesMetrics: Bool = true,
        operators: [String]? = nil,
        scrapeKey: String? = nil,
        authenticator: Authenticator? = nil,
        crossOrigin: CrossOrigin? = nil,
        hooks: [String: TableHooks] = [:],
        endpoints: [Endpoint] = [],
        dashboard: Dashboard? = nil,
        traffic: ServerTraffic = ServerTraffic(),
        relay: ((any TableStore) -> any TableStore)? = nil
    ) async throws {
        var options = SQLiteTableStore.Options()
        options.inline = path == nil
        options.limits = limits
        options.now = { clock.now() }
        // Time passes on both clocks, unless a test sets only one of them.
        options.steady = { (steady ?? clock).current }
        options.metrics = traffic.store
        options.log = storeLog
        if let readers { options.readers = readers }
        if let purgeInterval { options.purgeInterval = purgeInterval }
        let usesDatabase = onPostgres && path == nil
        let slot = usesDatabase ? await DatabaseSlots.shared.take() : nil
        let ownDatabase =
            usesDatabase && database == nil ? try PostgresCluster.shared().emptyDatabase() : nil
        let created = try Self.store(
            options,
            path,
            database: usesDatabase ? database ?? ownDatabase : nil,
            usesTwoServers: Self.usesTwoServers && database == nil,
            briefLock: briefLock
        )
        store = relay?(created) ?? created
        life = slot.map { [store] in StoreLife(store, $0, ownDatabase: ownDatabase) }
        var settings = ServerSettings(tables: tables, dynamicSchema: dynamic)
        settings.limits = limits
        settings.hooks = hooks
        settings.endpoints = endpoints
        settings.dashboard = dashboard
        settings.traffic = traffic
        settings.log = log
        settings.exposesMetrics = exposesMetrics
        settings.operators = Operators(operators)
        settings.scrapeKey = ScrapeKey(scrapeKey.map { Array($0.utf8) })
        settings.authenticator = authenticator
        settings.crossOrigin = crossOrigin
        let ids = Mutex(0)
        settings.environment = ServerEnvironment(
            now: { clock.now() },
            makeID: makeID ?? {
                ids.withLock { count in
                    count += 1
                    return "id-\(count)"
                }
            }
        )
        handler = RequestHandler(try await TableService(settings, store: store), log: log)
    }

    /// Sends a request to `target`, a path with a query, which may contain characters that URLs do not allow.
    package func send(
        _ method: String,
        _ target: String,
        _ body: String? = nil,
        classic: Bool = false,
        headers: HTTPFields = [:]
    ) async -> ServerResponse {
        let parts = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        var fields = headers
        // The metrics are for local callers.
        fields.append("Host", target == "/metrics" ? "localhost:8080" : "example.test:8080")
        if classic { fields.append("ZUMO-API-VERSION", "2.0.0") }
        if body != nil, fields["Content-Type"] == nil {
            fields.append("Content-Type", "application/json")
        }
        let query = parts.count > 1 ? String(parts[1]).replacing(" ", with: "%20") : ""
        let request = ServerRequest(
            method: method,
            path: String(parts[0]),
            query: query,
            headers: fields,
            body: Array((body ?? "").utf8)
        )
        guard Self.usesBatches, let batch = request.asBatch() else {
            return await handler.handle(request)
        }
        return await handler.handle(batch).outOfBatch()
    }
}

extension TestServer {
    /// Sends a GET again while it is rejected with 503, because on a busy machine a query waits for most of its time.
    ///
    /// It gives up after five minutes: tests that run in parallel can keep the machine busy for that long.
    package func getWhileBusy(_ target: String) async -> ServerResponse {
        let end = ContinuousClock.now + .seconds(300)
        var answer = await send("GET", target)
        while answer.status == 503, .now < end {
            #expect(answer.error.contains("waited longer than limits.queryTime"))
            #expect(answer.headers["Retry-After"] == "1")
            answer = await send("GET", target)
        }
        return answer
    }
}

extension ServerResponse {
    package var text: String { String(decoding: body, as: UTF8.self) }

    package var json: Any? {
        try? JSONSerialization.jsonObject(with: Data(body), options: .fragmentsAllowed)
    }

    package var row: [String: Any] { json as? [String: Any] ?? [:] }

    /// The rows of a list in either generation.
    package var rows: [[String: Any]] {
        json as? [[String: Any]] ?? row["items"] as? [[String: Any]]
            ?? row["results"] as? [[String: Any]] ?? []
    }

    package var ids: [String] { rows.compactMap { $0["id"] as? String } }

    package var error: String { row["error"] as? String ?? "" }

    package var deltaLink: String? { row["@odata.deltaLink"] as? String }

    package var code: String? { row["code"] as? String }
}

/// A directory that is removed when it is deinitialized.
package func withTemporaryDirectory<Result>(
    _ body: (String) async throws -> Result
) async throws -> Result {
    let url = FileManager.default.temporaryDirectory
        .appendingPathComponent("tideline-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: url) }
    return try await body(url.path)
}
