// FieldService: customers with jobs, visits and notes, which refer to each other, on one of the backends.

import Foundation
import Testing
package import TidelineCore
package import TidelineServerCore
import TidelineServerPostgres
import TidelineTestKit

/// A server whose tables have references.
package struct FieldService {
    package static let backends = AuditedServer.backends

    /// Deleting a customer deletes its jobs and their visits, and notes lose it; a job with an invoice stays.
    package static func tables(
        _ change: (inout [TableDefinition]) -> Void = { _ in }
    ) -> [TableDefinition] {
        func table(
            _ name: String,
            _ columns: [String],
            _ references: [TableReference]
        ) -> TableDefinition {
            var table = TableDefinition(
                name,
                columns: columns.map { ColumnDefinition($0, .string) },
                references: references
            )
            table.audit = true
            return table
        }
        var tables = [
            table("Customer", ["name"], []),
            table(
                "Job",
                ["title", "customerID"],
                [TableReference("customerID", to: "Customer", onDelete: .cascade)]
            ),
            table(
                "Visit",
                ["jobID", "nextID"],
                [
                    TableReference("jobID", to: "Job", onDelete: .cascade),
                    TableReference("nextID", to: "Visit", onDelete: .setNull),
                ]
            ),
            table("Invoice", ["jobID"], [TableReference("jobID", to: "Job")]),
            table(
                "Note",
                ["text", "customerID"],
                [TableReference("customerID", to: "Customer", onDelete: .setNull)]
            ),
        ]
        change(&tables)
        return tables
    }

    package let server: AuditedServer

    /// Serves the tables in a separate database.
    package static func with(
        _ onPostgres: Bool,
        _ tables: [TableDefinition] = FieldService.tables(),
        hooks: [String: TableHooks] = [:],
        _ body: (FieldService) async throws -> Void
    ) async throws {
        try await AuditedServer.with(onPostgres, tables, hooks: hooks) { server in
            try await body(FieldService(server: server))
        }
    }

    /// Inserts a row; returns the answer.
    @discardableResult
    package func put(
        _ table: String,
        _ id: String,
        _ values: [String: String?] = [:],
        by user: String = "anna"
    ) async throws -> ServerResponse {
        try await server.send("POST", "/tables/\(table)", Self.json(id, values), by: user)
    }

    package func patch(
        _ table: String,
        _ id: String,
        _ values: [String: String?],
        by user: String = "anna"
    ) async throws -> ServerResponse {
        try await server.send("PATCH", "/tables/\(table)/\(id)", Self.json(nil, values), by: user)
    }

    package func delete(
        _ table: String,
        _ id: String,
        by user: String = "anna"
    ) async throws -> ServerResponse {
        try await server.send("DELETE", "/tables/\(table)/\(id)", by: user)
    }

    /// Returns the ids of the rows that are not deleted.
    package func ids(_ table: String) async throws -> [String] {
        try await server.send("GET", "/tables/\(table)?$top=1000&$orderby=id").ids
    }

    /// Returns the path for the changes of a table from now on.
    package func deltaLink(_ table: String) async throws -> String {
        try await Self.deltaLink(table) { target, headers in
            try await server.send("GET", target, nil, headers)
        }
    }

    package static func deltaLink(
        _ table: String,
        _ send: (String, HTTPFields) async throws -> ServerResponse
    ) async throws -> String {
        let list = try await send("/tables/\(table)", ["Prefer": "odata.track-changes"])
        let link = try #require(list.deltaLink)
        return "/tables/\(table)?" + link
    }

    package static func json(_ id: String?, _ values: [String: String?]) -> String {
        var members = values.sorted { $0.key < $1.key }.map { name, value in
            "\"\(name)\":" + (value.map { "\"\($0)\"" } ?? "null")
        }
        if let id { members.insert("\"id\":\"\(id)\"", at: 0) }
        return "{" + members.joined(separator: ",") + "}"
    }
}

extension ServerResponse {
    /// The status with the members of an error about a reference: `409 parentNotFound customerID Customer`.
    package var referenceError: String {
        let members = ["code", "column", "table"].compactMap { row[$0] as? String }
        return ([String(status)] + members).joined(separator: " ")
    }
}
