// TidelineServer: combines store, routes and HTTP.

public import Foundation
import Synchronization
import TidelineCore
package import TidelineHTTP
import TidelineServerCore
import TidelineServerPostgres
import TidelineServerSQLite
import TidelineTLS

/// A server.
///
/// ```swift
/// let server = TidelineServer(configuration: configuration)
/// let url = try await server.start()
/// // …
/// await server.stop()
/// ```
public final class TidelineServer: Sendable {
    struct Running {
        var store: any TableStore
        var http: HTTPServer
        var handler: RequestHandler
        var authenticator: Authenticator?
        var keys: TokenKeys?
        var tls: TLSIdentity?
        /// The configuration in use: the one at the start, with the reloaded settings.
        var configuration: ServerConfiguration
    }

    enum State {
        case stopped
        case starting
        /// The server was stopped before its start was complete.
        case givenUp
        case running(Running)
    }

    let configuration: ServerConfiguration
    let log: ServerLog
    let state = Mutex(State.stopped)

    /// Creates a server that does nothing until it is started.
    public init(configuration: ServerConfiguration) {
        self.configuration = configuration
        log = configuration.makeLog()
    }

    /// Opens the database, creates missing tables and columns, and starts to listen.
    ///
    /// - Returns: The address that it listens on.
    /// - Throws: ``DatabaseError`` if the database cannot be used, or if the declared tables would lose
    ///   existing data; ``ConfigurationError`` if a key cannot be used; `HTTPServerError` if the address cannot
    ///   be listened on, and with code `alreadyStarted` while the server runs. It may be started again after a
    ///   failure and after ``stop()``.
    public func start() async throws -> URL { try await start(on: nil) }

    /// Starts with passed sockets, if there are any.
    ///
    /// In that case, it waits until the former server, which may still use the database, is drained.
    package func start(on handed: HandedSockets?) async throws -> URL {
        try state.withLock { state in
            guard case .stopped = state else { throw HTTPServerError.running }
            state = .starting
        }
        do {
            let (parts, url) = try await open(handed)
            let isWanted = state.withLock { state in
                guard case .starting = state else { return false }
                state = .running(parts)
                return true
            }
            guard isWanted else {
                await parts.http.drain()
                await parts.store.stop()
                throw CancellationError()
            }
            return url
        } catch {
            state.withLock { $0 = .stopped }
            if let error = error as? SchemaError {
                throw DatabaseError(.schemaChange, error.description)
            }
            throw error
        }
    }

    private func open(_ handed: HandedSockets?) async throws -> (Running, URL) {
        var configuration = configuration
        if let handed { configuration.listens(on: handed) }
        let keys = try configuration.authentication.map {
            (authentication) throws(ConfigurationError) in
            try TokenKeys(authentication, log: log)
        }
        let authenticator = keys?.makeAuthenticator()
        if configuration.authentication?.keyAddress != nil { await authenticator?.renew() }
        let tls = try configuration.tls?.makeIdentity()
        let crossOrigin = try configuration.makeCrossOrigin()
        let proxies = try configuration.makeProxies()
        try configuration.checkCode()
        try configuration.checkDatabase()
        let traffic = ServerTraffic(
            answersBytesMax: configuration.http.answersBytesMax,
            logLinesLost: LogWriter.standardError.lost
        )
        traffic.warnings.begin(log)
        let store = try makeStore(traffic, waits: handed != nil)
        do {
            var settings = ServerSettings(
                tables: configuration.tables,
                dynamicSchema: configuration.dynamicSchema
            )
            settings.hooks = configuration.hooks
            settings.endpoints = configuration.endpoints
            settings.log = log
            settings.publicURL = configuration.publicURL
            settings.limits = configuration.limits
            settings.scheme = scheme
            settings.traffic = traffic
            settings.exposesMetrics = configuration.isLoopback
            settings.operators = Operators(configuration.authentication?.operators)
            settings.scrapeKey = ScrapeKey(try configuration.metrics.readKey())
            settings.certificateEnd = { tls?.end }
            settings.lastBackup = configuration.lastBackup
            settings.processUse = configuration.processUse
            settings.bounds.connections = configuration.http.connectionsMax
            settings.bounds.listeners = configuration.http.listenersMax
            settings.bounds.ledgerBytes = configuration.limits.ledgerBytes
            settings.authenticator = authenticator
            settings.crossOrigin = crossOrigin
            settings.dashboard = configuration.makeDashboard(operators: settings.operators)
            let handler = RequestHandler(
                try await TableService(settings, store: store),
                log: log,
                idPrefix: String(settings.environment.makeID().prefix(8))
            )
            let http = HTTPServer(
                host: configuration.host,
                port: configuration.port,
                limits: configuration.http,
                loops: configuration.loops,
                ids: handler.ids,
                traffic: traffic,
                tls: tls,
                proxies: proxies,
                handed: handed,
                rejected: { handler.note($0, $1) },
                handler: { await handler.handle($0) }
            )
            // A host that makes no valid URL is rejected before anything listens.
            _ = try url(configuration.host, port: 0)
            let port = try http.start()
            log.write(
                .info,
                "listening",
                [
                    "host": configuration.host, "port": "\(port)",
                    "database": configuration.databaseLocation,
                ]
            )
            if let tls { logExpiry(of: tls) }
            let parts = Running(
                store: store,
                http: http,
                handler: handler,
                authenticator: authenticator,
                keys: keys,
                tls: tls,
                configuration: configuration
            )
            return (parts, try url(configuration.host, port: port))
        } catch {
            await store.stop()
            throw error
        }
    }

    /// Rejects new requests, finishes current ones, and closes the database.
    ///
    /// Before that, for `drainNoticeTime`, only the readiness changes.
    ///
    /// A ``start()`` in progress ends with `CancellationError`.
    public func stop() async {
        let parts = state.withLock { state -> Running? in
            if case .starting = state { state = .givenUp }
            guard case .running(let parts) = state else { return nil }
            state = .stopped
            return parts
        }
        guard let parts else { return }
        parts.handler.beginDrain()
        if configuration.http.drainNoticeTime > .zero {
            log.write(.info, "stopping")
            try? await Task.sleep(for: configuration.http.drainNoticeTime)
        }
        await parts.http.drain()
        await parts.store.stop()
        log.write(.info, "stopped")
        LogWriter.standardError.flush()
    }

    private func makeStore(
        _ traffic: ServerTraffic,
        waits: Bool
    ) throws -> any TableStore {
        var options = SQLiteTableStore.Options()
        options.limits = configuration.limits
        options.log = log
        options.metrics = traffic.store
        if let readers = configuration.readers { options.readers = readers }
        if waits {
            options.lockPatience =
                configuration.http.drainNoticeTime + configuration.http.drainTimeMax
                + Self.lastMoment
        }
        switch configuration.database {
        case .sqlite(let path):
            let place = ServerConfiguration.absolute(path)
            let isNew = !FileManager.default.fileExists(atPath: place)
            let store = try SQLiteTableStore(path: path, options: options)
            if isNew { announceNew(place) }
            return store
        case .memory:
            options.inline = true
            return try SQLiteTableStore(path: ":memory:", options: options)
        case .postgres(let url):
            return try makePostgresStore(url, traffic)
        }
    }

    /// Logs that the database is new, and the path of another one with the same name.
    ///
    /// Earlier versions resolved a relative path in a configuration file against the working directory.
    private func announceNew(_ place: String) {
        log.write(.info, "a new database was created", ["database": place])
        let name = URL(filePath: place).lastPathComponent
        let other = ServerConfiguration.absolute(name)
        guard other != place, FileManager.default.fileExists(atPath: other) else { return }
        log.write(
            .warning,
            """
            the working directory has a database of the same name, which is not used, because a path in \
            a configuration file is relative to that file
            """,
            ["used": place, "other": other]
        )
    }

    private func makePostgresStore(
        _ url: String,
        _ traffic: ServerTraffic
    ) throws -> PostgresTableStore {
        var options = PostgresTableStore.Options()
        options.limits = configuration.limits
        options.log = log
        options.metrics = traffic.store
        options.isListenedTo = { [listeners = traffic.listeners] in listeners.current > 0 }
        options.replica = configuration.replica
        if let readers = configuration.readers { options.readers = readers }
        return try PostgresTableStore(url: url, options: options)
    }

    /// Waits until each event loop has run once; returns immediately if the server is not running.
    package func pulse() async {
        let http = state.withLock { state -> HTTPServer? in
            guard case .running(let parts) = state else { return nil }
            return parts.http
        }
        await http?.pulse()
    }

    /// The time that a drained server may take to close its database.
    private static let lastMoment: Duration = .seconds(5)

    /// The scheme of the server's addresses.
    private var scheme: String { configuration.tls == nil ? "http" : "https" }

    private func url(_ host: String, port: Int) throws -> URL {
        let host = host.contains(":") ? "[\(host)]" : host
        guard let url = URL(string: "\(scheme)://\(host):\(port)") else {
            throw ConfigurationError(["listen: the host cannot be part of a URL"])
        }
        return url
    }
}
