// TidelineServer: store, routes and HTTP put together.

public import Foundation
import Synchronization
import TidelineCore
import TidelineHTTP
import TidelineServerCore
import TidelineServerSQLite

/// A server.
///
/// ```swift
/// let server = TidelineServer(configuration: configuration)
/// let url = try await server.start()
/// // …
/// await server.stop()
/// ```
public final class TidelineServer: Sendable {
    private struct Running {
        var store: SQLiteTableStore
        var http: HTTPServer
    }

    private let configuration: ServerConfiguration
    private let log: ServerLog
    private let running = Mutex<Running?>(nil)

    /// Makes a server that does nothing until it is started.
    public init(configuration: ServerConfiguration) {
        self.configuration = configuration
        log = configuration.makeLog()
    }

    /// Opens the database, makes what tables and columns it lacks, and listens.
    ///
    /// - Returns: The address that it listens on.
    /// - Throws: When the database cannot be opened, when the declared tables would lose data of
    ///   those that are there, when a key cannot be used, and when the address cannot be
    ///   listened on.
    public func start() async throws -> URL {
        let authenticator = try configuration.authentication?.makeAuthenticator()
        let crossOrigin = try configuration.makeCrossOrigin()
        let store = try makeStore()
        do {
            var settings = ServerSettings(
                tables: configuration.tables,
                dynamicSchema: configuration.dynamicSchema
            )
            settings.publicURL = configuration.publicURL
            settings.limits = configuration.limits
            settings.exposesMetrics = configuration.isLoopback
            settings.authenticator = authenticator
            settings.crossOrigin = crossOrigin
            let handler = RequestHandler(
                try await TableService(settings, store: store),
                log: log,
                idPrefix: String(settings.environment.makeID().prefix(8))
            )
            let http = HTTPServer(
                host: configuration.host,
                port: configuration.port,
                limits: configuration.http,
                handler: { await handler.handle($0) }
            )
            let port = try http.start()
            running.withLock { $0 = Running(store: store, http: http) }
            log.write(.info, "listening", ["host": configuration.host, "port": "\(port)"])
            return try url(port: port)
        } catch {
            await store.stop()
            throw error
        }
    }

    /// Refuses new requests, finishes those under way, and closes the database.
    public func stop() async {
        let parts = running.withLock { running in
            defer { running = nil }
            return running
        }
        guard let parts else { return }
        await parts.http.drain()
        await parts.store.stop()
        log.write(.info, "stopped")
    }

    private func makeStore() throws -> SQLiteTableStore {
        var options = SQLiteTableStore.Options()
        options.limits = configuration.limits
        options.log = log
        switch configuration.database {
        case .sqlite(let path):
            do {
                return try SQLiteTableStore(path: path, options: options)
            } catch {
                throw ConfigurationError([
                    """
                    the database '\(path)' cannot be opened (\(error)). Give a database of this \
                    server, or a new file in a directory that it may write to.
                    """
                ])
            }
        case .memory:
            options.inline = true
            return try SQLiteTableStore(path: ":memory:", options: options)
        }
    }

    private func url(port: Int) throws -> URL {
        let host =
            configuration.host.contains(":") ? "[\(configuration.host)]" : configuration.host
        guard let url = URL(string: "http://\(host):\(port)") else {
            throw ConfigurationError(["listen: the host cannot be part of a URL"])
        }
        return url
    }
}

extension ServerConfiguration {
    /// Whether only this machine can reach the server.
    var isLoopback: Bool { host == "localhost" || host == "::1" || host.hasPrefix("127.") }

    func makeLog() -> ServerLog {
        ServerLog(
            level: ServerLog.Level(rawValue: log.level.rawValue) ?? .info,
            format: ServerLog.Format(rawValue: log.format.rawValue) ?? .text,
            requests: ServerLog.Level(rawValue: log.requests.rawValue) ?? .debug,
            now: ServerEnvironment.live.now,
            sink: { line in
                line.withUnsafeBytes { bytes in
                    // A lost line is no reason to fail a request.
                    _ = write(STDERR_FILENO, bytes.baseAddress, bytes.count)
                }
            }
        )
    }
}
