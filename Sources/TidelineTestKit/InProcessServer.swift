// InProcessServer: a server without a socket, which consists of the request handler and tables in
// memory.

public import Foundation
import Tideline
import TidelineCore
public import TidelineServerCore
import TidelineServerSQLite

/// A server in this process with tables in memory.
///
/// ```swift
/// let server = try await InProcessServer(tables: [
///     TableDefinition("TodoItem", columns: [ColumnDefinition("text", .string)])
/// ])
/// let client = SyncClient(endpoint: server.endpoint, transport: server.transport)
/// ```
public struct InProcessServer: Sendable {
    package let handler: RequestHandler

    /// The endpoint to give to clients; no socket listens there.
    public let endpoint: URL

    /// Creates the server with empty tables.
    ///
    /// - Parameters:
    ///   - tables: The definitions of the tables.
    ///   - hooks: The hooks of the tables, by table name.
    ///   - endpoints: The custom endpoints under `/api`.
    /// - Throws: An error if the tables cannot be created.
    public init(
        tables: [TableDefinition],
        hooks: [String: TableHooks] = [:],
        endpoints: [Endpoint] = []
    ) async throws {
        try await self.init(
            tables: tables,
            hooks: hooks,
            endpoints: endpoints,
            environment: .live
        )
    }

    package init(
        tables: [TableDefinition],
        hooks: [String: TableHooks] = [:],
        endpoints: [Endpoint] = [],
        environment: ServerEnvironment,
        authenticator: Authenticator? = nil,
        store: (any TableStore)? = nil
    ) async throws {
        var options = SQLiteTableStore.Options()
        options.inline = true
        options.now = environment.now
        var settings = ServerSettings(tables: tables)
        settings.environment = environment
        settings.authenticator = authenticator
        settings.hooks = hooks
        settings.endpoints = endpoints
        handler = RequestHandler(
            try await TableService(
                settings,
                store: try store ?? SQLiteTableStore(path: ":memory:", options: options)
            )
        )
        endpoint = Self.address
    }

    private static let address = URL(string: "http://localhost") ?? URL(filePath: "/")

    /// A transport that passes a client's requests to this server.
    public var transport: InProcessTransport { InProcessTransport(handler) }
}
