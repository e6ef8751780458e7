// SchemaCheck: compares the tables of the app with those of the server.

import Synchronization
public import TidelineCore

/// The last comparison of a client's tables with those of its server.
struct SchemaMemory: Sendable {
    /// The `Tideline-Schema` of the response with the server's document.
    var name: String
    var account: AccountView
    var differences: [SchemaDifference]
}

/// A comparison of the tables of an app with those of its server.
struct SchemaCheck {
    let engine: SyncEngine

    /// Returns the differences; requests the document of the server only if its schema has changed since.
    func differences() async throws -> [SchemaDifference] {
        do {
            return try await engine.pinned { try await checked() }
        } catch let error as TransportError {
            throw SyncError.offline(error)
        } catch let error as CancellationError {
            throw SyncError.cancelled("comparison of the schemas", error)
        }
    }

    private func checked() async throws -> [SchemaDifference] {
        let (service, account) = (try engine.remote.get(), await engine.account())
        let known = engine.schemaMemory.withLock { $0 }
        if let known, known.name == service.schema.name, known.account == account {
            return known.differences
        }
        let (response, _) = try await service.plainly(
            RemoteService.Request(method: "GET", url: try service.endpoint.schemaURL()),
            .datasync
        )
        guard response.status == 200, let server = try? SchemaDocument(response.body) else {
            throw Self.failure(response, server: service.endpoint.name)
        }
        let tables = engine.catalog.schemas.values.filter { !$0.isLocalOnly && !$0.columns.isEmpty }
        let own = SchemaDocument(
            tables.map { SchemaDocument.Table($0.synced) },
            parts: [.columns, .rules]
        )
        let found = own.differences(from: server)
        if let name = response.headers[SharedSchema.field] {
            let memory = SchemaMemory(name: name, account: account, differences: found)
            engine.schemaMemory.withLock { $0 = memory }
        }
        return found
    }

    private static func failure(_ response: TransportResponse, server: String) -> SyncError {
        switch response.status {
        case 401 where AnswerProof.wantsSignIn(response):
            .signInWanted("comparison of the schemas", reason: response.problem)
        case 404, 405, 501:
            SyncError(
                .serverError,
                """
                The server has no schema document (\(response.status)): the comparison needs a Tideline server. \
                Sync works with other servers, too.
                """,
                statusCode: response.status
            )
        default:
            .unexpectedAnswer(
                AnswerOutline(response),
                from: server,
                to: "the comparison of the schemas",
                isProven: AnswerProof.isServers(response)
            )
        }
    }
}

extension SyncContext {
    /// Compares the tables of this app with those of the server.
    ///
    /// A column or table that the server does not have is read as its default, and a change of it is rejected. So
    /// an app can say that it must be updated, or report the differences to its authors. Columns that only the server
    /// has are not differences, and neither is what stays on the device.
    ///
    /// The document of the server is requested at most once for each change of its schema: later calls return
    /// the same result until a response to any request shows that the schema has changed.
    ///
    /// ```swift
    /// for difference in try await client.syncContext.schemaDifferences() { print(difference) }
    /// ```
    ///
    /// - Returns: The differences, in the order of the tables and columns; none if both fit.
    /// - Throws: ``SyncError`` with code `storeNotInitialized`, `offline`, `unauthorized`, `insecureEndpoint`,
    ///   `cancelled`, `suspended`, and `serverError` if the server has no such document, as the original servers.
    public func schemaDifferences() async throws -> [SchemaDifference] {
        try await SchemaCheck(engine: engine()).differences()
    }
}
