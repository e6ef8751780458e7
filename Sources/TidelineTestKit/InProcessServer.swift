// InProcessServer: a whole server without a socket: the handler and its tables in memory.

public import Foundation
import Tideline
import TidelineCore
public import TidelineServerCore
import TidelineServerSQLite

/// A server in this process, with its tables in memory.
///
/// ```swift
/// let server = try await InProcessServer(tables: [
///     TableDefinition("TodoItem", columns: [ColumnDefinition("text", .string)])
/// ])
/// let client = SyncClient(endpoint: server.endpoint, transport: server.transport)
/// ```
public struct InProcessServer: Sendable {
    package let handler: RequestHandler

    /// The endpoint to give to clients; nothing listens there.
    public let endpoint: URL

    /// Makes the server with empty tables.
    public init(tables: [TableDefinition]) async throws {
        try await self.init(tables: tables, environment: .live)
    }

    package init(tables: [TableDefinition], environment: ServerEnvironment) async throws {
        var options = SQLiteTableStore.Options()
        options.inline = true
        options.now = environment.now
        var settings = ServerSettings(tables: tables)
        settings.environment = environment
        handler = RequestHandler(
            try await TableService(
                settings, store: try SQLiteTableStore(path: ":memory:", options: options)))
        endpoint = Self.address
    }

    private static let address = URL(string: "http://localhost") ?? URL(filePath: "/")

    /// Carries a client's requests into this server.
    public var transport: InProcessTransport { InProcessTransport(handler) }
}
