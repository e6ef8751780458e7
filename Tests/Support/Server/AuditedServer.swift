// AuditedServer: a server with audited tables, on one of the backends, and direct access to its database.

import Foundation
import Testing
package import TidelineCore
import TidelinePostgres
import TidelineSQLite
package import TidelineServerCore
import TidelineServerPostgres
import TidelineServerSQLite
import TidelineTestKit

package struct AuditedServer {
    package static let backends =
        PostgresCluster.reasonToSkip == nil ? TestScope.first(1, of: [false, true]) : [false]

    /// Two tables with auditing, and one without.
    package static var tables: [TableDefinition] {
        var audited = TestServer.todo
        audited.audit = true
        audited.conflict = .merge
        var hard = TableDefinition("Hard", columns: [ColumnDefinition("text", .string)])
        hard.softDelete = false
        hard.audit = true
        let other = TableDefinition("Other", columns: [ColumnDefinition("text", .string)])
        return [audited, hard, other]
    }

    package let testServer: TestServer
    package let clock: TestClock
    /// The path of its file; nil on PostgreSQL.
    package let path: String?
    /// Its address on PostgreSQL.
    package let url: String

    /// Serves the tables in a separate database, or in that of another server.
    package static func with(
        _ onPostgres: Bool,
        _ tables: [TableDefinition] = AuditedServer.tables,
        dynamic: Bool = false,
        hooks: [String: TableHooks] = [:],
        dashboard: Dashboard? = nil,
        location: (path: String, url: String)? = nil,
        _ body: (AuditedServer) async throws -> Void
    ) async throws {
        try await withTemporaryDirectory { directory in
            let clock = TestClock()
            let path = onPostgres ? nil : location?.path ?? directory + "/a.db"
            let url = try onPostgres ? location?.url ?? PostgresCluster.shared().database() : ""
            let testServer = try await TestServer(
                tables,
                path: path,
                onPostgres: onPostgres,
                database: onPostgres ? url : nil,
                dynamic: dynamic,
                clock: clock,
                authenticator: try Tokens.authenticator(),
                hooks: hooks,
                dashboard: dashboard
            )
            try await body(
                AuditedServer(testServer: testServer, clock: clock, path: path, url: url)
            )
            await testServer.store.stop()
        }
    }

    package func audit(_ query: AuditQuery = AuditQuery()) throws -> [AuditEntry] {
        if let path { return try DatabaseInspection(path: path).audit(query) }
        return try PostgresMaintenance(url: url).audit(query)
    }

    /// As `table id action user columns`, oldest first.
    package func shown(_ query: AuditQuery = AuditQuery()) throws -> [String] {
        try audit(query).reversed().map { entry in
            let columns = entry.columns.joined(separator: ",")
            let user = entry.author.user ?? "-"
            return "\(entry.table) \(entry.id) \(entry.action.rawValue) \(user) \(columns)"
        }
    }

    /// Runs SQL on the database, bypassing the server.
    package func execute(sqlite: String, postgres: String) throws {
        if let path { return try Database(path: path).execute(sqlite) }
        try PostgresConnection(PostgresAddress(url)).execute(postgres)
    }

    /// Sends a request as a user.
    package func send(
        _ method: String,
        _ target: String,
        _ body: String? = nil,
        by user: String = "anna",
        _ more: HTTPFields = [:]
    ) async throws -> ServerResponse {
        var headers = try Tokens.headers(user)
        for field in more { headers.append(field.name, field.value) }
        return await testServer.send(method, target, body, headers: headers)
    }
}
