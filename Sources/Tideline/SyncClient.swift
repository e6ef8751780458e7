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
    /// Where the server is: scheme, host, port, and a path before `/tables` if there is one.
    public let endpoint: URL

    /// Store, queue, push and pull.
    public let syncContext: SyncContext

    let remote: @Sendable () throws -> RemoteService

    private let projected: ProjectedRows

    /// What ``startSyncing(_:)`` began.
    let automatic = AutomaticSync()

    /// The waits for answers, tokens and timers.
    let calls: OutsideCalls

    let tokens: TokenKeeper?

    /// Makes a client; nothing is sent.
    ///
    /// - Parameters:
    ///   - endpoint: The server's URL. Plain http is refused unless it leads to this machine: what
    ///     would send something throws ``SyncError`` `insecureEndpoint`. Local work needs no server.
    ///   - generation: Which generation of server is behind the endpoint; learned unless given.
    ///   - transport: What carries requests; the platform's own when nil.
    ///   - authentication: Who is signed in, and the token; nil sends none.
    ///   - limits: The bounds of push, pull and requests.
    ///   - log: Is told what the client does; nil: nobody is.
    ///   - appName: What `User-Agent` calls the app; nil: its bundle identifier, or the name of the
    ///     process.
    ///   - appVersion: The version of the app; nil: the one in its bundle. After an update, operations that
    ///     the server refused for a missing table, column or right are retried once.
    ///   - allowsInsecureEndpoint: Whether plain http may leave this machine.
    ///   - environment: Clock, ids, chance and sleep; tests give their own.
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
        let projected = ProjectedRows(rowsMax: limits.handedOutRowsMax)
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

    /// The table of a record type on the server: every call is a request, and fails offline.
    ///
    /// ```swift
    /// let done = try await client.table(TodoItem.self).read(where: { $0.complete })
    /// ```
    public func table<Record: SyncRecord>(_ type: Record.Type) -> RemoteTable<Record> {
        RemoteTable(remote: remote, projected: projected) { try RecordCoder.model(for: type) }
    }

    /// A table on the server by name, with untyped rows.
    public func table(named name: String) -> RemoteTable<Row> {
        let schema = syncContext.schema(name) ?? TableSchema(name: name, columns: [])
        return RemoteTable(remote: remote, projected: projected) {
            RecordCoder.untyped(table: schema)
        }
    }

    /// The table of a record type on the device; needs no network.
    ///
    /// ```swift
    /// let todos = try client.syncTable(TodoItem.self)
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `storeNotInitialized` before
    ///   ``SyncContext/initialize(store:tables:schemas:conflicts:tableConflicts:lostRows:)``, or
    ///   `unknownTable` when the type was not among its tables.
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

    /// A table on the device by name, with untyped rows.
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
