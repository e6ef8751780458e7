// SyncClient: the entry point of the SDK: one server, one sync context.

public import Foundation
public import TidelineCore

/// A client of one server.
///
/// ```swift
/// let client = SyncClient(endpoint: URL(string: "http://127.0.0.1:8080")!)
/// try await client.syncContext.initialize(
///     store: try SQLiteStore(path: "todo.sqlite"), tables: [TodoItem.self])
/// let todos = try client.syncTable(TodoItem.self)
/// ```
public final class SyncClient: Sendable {
    /// The server's URL: the scheme, the host, the port, and the path before `/tables`, if there is one.
    public let endpoint: URL

    /// The store and the operation queue, with push and pull.
    public let syncContext: SyncContext

    let remote: @Sendable () throws -> RemoteService

    private let projected: ProjectedRows

    /// The automatic sync that ``startSyncing(_:)`` starts.
    let automatic = AutomaticSync()

    /// The calls that wait for responses, tokens and timers.
    let calls: OutsideCalls

    let tokens: TokenKeeper?

    /// Creates a client.
    ///
    /// The initializer sends nothing to the server.
    ///
    /// - Parameters:
    ///   - endpoint: The server's URL. Plain http is rejected unless the server is on this machine: calls that
    ///     would send a request throw ``SyncError`` `insecureEndpoint`. Local reads and changes need no server.
    ///   - generation: The generation of the server at the endpoint. If nil, the client detects it.
    ///   - transport: The transport that carries requests. If nil, the platform's default transport.
    ///   - authentication: The signed-in account and its token. If nil, requests are sent without a token.
    ///   - limits: The limits of pushes, pulls and requests.
    ///   - log: Receives messages about the client's work. If nil, nothing is logged.
    ///   - appName: The app's name in `User-Agent`. If nil, the bundle identifier, or else the name of the process.
    ///   - appVersion: The version of the app. If nil, the version in the app's bundle. After an update, operations
    ///     that the server rejected because of a missing table, column or right are retried once.
    ///   - allowsInsecureEndpoint: Whether plain http to another machine is allowed.
    ///   - environment: The source of the wall clock, ids, randomness and sleep. Tests pass their
    ///     own environment.
    public init(
        endpoint: URL,
        generation: ServerGeneration = .automatic,
        transport: (any Transport)? = nil,
        authentication: (any Authentication)? = nil,
        limits: SyncLimits = SyncLimits(),
        log: (any SyncLog)? = nil,
        appName: String? = nil,
        appVersion: String? = nil,
        allowsInsecureEndpoint: Bool = false,
        environment: SyncEnvironment = .live
    ) {
        self.endpoint = endpoint
        let limits = limits.clamped
        let transport = transport ?? makeDefaultTransport()
        let generation = SharedGeneration(generation)
        let clock = ServerClock()
        let installation = SharedInstallation()
        let coding = SharedCoding()
        let signs = SharedSigns()
        let busy = SharedBusyPeriod()
        let schema = SharedSchema()
        let product = UserAgent.text(appName: appName)
        let version = AppVersion.text(appVersion)
        let calls = OutsideCalls(environment)
        let tokens = authentication.map {
            TokenKeeper($0, calls, timeMax: min(limits.tokenTimeMax, limits.requestTimeMax))
        }
        self.calls = calls
        self.tokens = tokens
        let projected = ProjectedRows(rowsMax: limits.selectedRowsMax)
        self.projected = projected
        let remote: @Sendable () throws -> RemoteService = {
            RemoteService(
                endpoint: try TableEndpoint(endpoint, allowsInsecure: allowsInsecureEndpoint),
                transport: transport,
                environment: environment,
                limits: limits,
                generation: generation,
                clock: clock,
                installation: installation,
                coding: coding,
                calls: calls,
                signs: signs,
                busy: busy,
                schema: schema,
                userAgent: product,
                appVersion: version,
                tokens: tokens,
                log: log
            )
        }
        self.remote = remote
        syncContext = SyncContext(
            remote: remote,
            calls: calls,
            tokens: tokens,
            environment: environment,
            limits: limits,
            log: log,
            projected: projected
        )
    }

    /// Returns the table of a record type on the server.
    ///
    /// Every call sends a request, and fails while the device is offline.
    ///
    /// ```swift
    /// let done = try await client.table(TodoItem.self).read(where: { $0.complete })
    /// ```
    public func table<Record: SyncRecord>(_ type: Record.Type) -> RemoteTable<Record> {
        RemoteTable(remote: remote, projected: projected) { try RecordCoder.model(for: type) }
    }

    /// Returns a table on the server by name, with untyped rows.
    public func table(named name: String) -> RemoteTable<Row> {
        let schema = syncContext.schema(name) ?? TableSchema(name: name, columns: [])
        return RemoteTable(remote: remote, projected: projected) {
            RecordCoder.untyped(table: schema)
        }
    }

    /// Returns the table of a record type on the device.
    ///
    /// Its reads and changes work without a network.
    ///
    /// ```swift
    /// let todos = try client.syncTable(TodoItem.self)
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `storeNotInitialized` before a call of
    ///   ``SyncContext/initialize(store:tables:schemas:conflicts:tableConflicts:lostRows:)``, or
    ///   `unknownTable` if the type was not among the tables of that call.
    public func syncTable<Record: SyncRecord>(_ type: Record.Type) throws -> SyncTable<Record> {
        let engine = try syncContext.engine()
        guard let schema = engine.catalog.schema(Record.tableName) else {
            throw SyncError.unknownTable(
                Record.tableName,
                known: Array(engine.catalog.schemas.keys)
            )
        }
        return SyncTable(
            engine: engine,
            coder: try RecordCoder.model(for: type, declared: schema)
        )
    }

    /// Returns a table on the device by name, with untyped rows.
    ///
    /// ```swift
    /// let rows = try client.syncTable(named: "TodoItem")
    /// try await rows.insert(["text": "Buy milk"])
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `storeNotInitialized` or `unknownTable`.
    public func syncTable(named name: String) throws -> SyncTable<Row> {
        let engine = try syncContext.engine()
        guard let schema = engine.catalog.schema(name) else {
            throw SyncError.unknownTable(name, known: Array(engine.catalog.schemas.keys))
        }
        return SyncTable(engine: engine, coder: .untyped(table: schema))
    }
}
