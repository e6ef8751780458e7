// SchemaCheck: compares the app's tables with the server's tables.

import Foundation
public import TidelineCore

/// A comparison of the app's tables with the server's tables.
struct SchemaCheck {
    let engine: SyncEngine

    /// Reads the result of the last comparison from the store.
    ///
    /// The result is not used if the app has other tables now. If the store fails, the tables are
    /// compared again.
    func recall() async {
        guard let endpoint = try? engine.remote.get().endpoint.key else { return }
        let stored = try? await engine.read { reader in
            try SchemaFinding.read(endpoint, from: reader.store)
        }
        guard let stored,
            stored.basis.app == engine.schemaFinding.fingerprint(of: engine.catalog)
        else { return }
        engine.schemaFinding.recall(stored)
    }

    // MARK: - For the app

    /// Returns the differences; requests the server's schema document only if the schema has
    /// changed since the last request.
    func differences() async throws -> [SchemaDifference] {
        try await engine.asking("comparison of the schemas") { try await checked() }
    }

    private func checked() async throws -> [SchemaDifference] {
        let service = try engine.remote.get()
        if let known = engine.schemaFinding.finding,
            known.basis == (await basis(service.schema.name)),
            case .compared(let found) = known.result
        {
            return found
        }
        let response = try await ask(service)
        guard let server = document(response) else {
            throw Self.failure(response, server: service.endpoint.name)
        }
        let found = engine.catalog.document.differences(from: server)
        let name = response.headers[SharedSchema.field] ?? service.schema.name
        if let basis = await basis(name) {
            await keep(SchemaFinding(basis, .compared(found)), service)
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

    // MARK: - In the background

    /// Compares the tables if the server's schema, the app's tables or the caller's rights have
    /// changed since the last comparison.
    ///
    /// It never throws an error. If a comparison fails, a later call tries again, at first after a
    /// minute.
    func compareIfChanged() async {
        guard engine.limits.schemaBytesMax > 0, let service = try? engine.remote.get(),
            let basis = await basis(service.schema.name), service.busyTime == .zero,
            engine.schemaFinding.begin(basis, at: engine.environment.now())
        else { return }
        do {
            let found = try await engine.pinned { try await fetch(service, basis) }
            engine.schemaFinding.end(with: found)
            await store(found, service)
            report(found)
        } catch let error as SyncError where error.code == .suspended {
            engine.schemaFinding.cancel()
        } catch _ where Task.isCancelled {
            engine.schemaFinding.cancel()
        } catch {
            engine.schemaFinding.fail(at: engine.environment.now())
            engine.events.note(
                SyncLogEntry(.info, "The schemas of app and server were not compared.")
            )
        }
    }

    /// An error for a response that does not show whether the server has a schema document.
    private struct Unclear: Error {}

    private func fetch(
        _ service: RemoteService,
        _ known: SchemaFinding.Basis
    ) async throws -> SchemaFinding {
        let response = try await ask(service)
        // The schema may have changed after the response that led to this request.
        let name = response.headers[SharedSchema.field] ?? known.schema
        let basis = await basis(name) ?? known
        if let server = document(response) {
            return SchemaFinding(
                basis,
                .compared(engine.catalog.document.differences(from: server))
            )
        }
        switch response.status {
        case 401, 403, 404, 405, 410, 501: break
        case 200..<300 where AnswerProof.isServers(response): break
        default: throw Unclear()
        }
        return SchemaFinding(basis, .unavailable(status: response.status))
    }

    // MARK: - Requests and results

    private func ask(_ service: RemoteService) async throws -> TransportResponse {
        let url = try service.endpoint.schemaURL()
        return try await service.plainly(
            RemoteService.Request(method: "GET", url: url),
            .datasync
        ).0
    }

    /// Returns the document in a response; nil if there is none, or if this version cannot read it.
    private func document(_ response: TransportResponse) -> SchemaDocument? {
        guard response.status == 200, response.body.count <= bytesMax else { return nil }
        return try? SchemaDocument(response.body)
    }

    /// The maximum size of a document; if automatic comparisons are off (0), the default applies to
    /// calls of the app.
    private var bytesMax: Int {
        let limit = engine.limits.schemaBytesMax
        return limit > 0 ? limit : SyncLimits().schemaBytesMax
    }

    /// Returns the facts that a comparison depends on; nil if the server does not send
    /// `Tideline-Schema`.
    private func basis(_ schema: String?) async -> SchemaFinding.Basis? {
        guard let schema else { return nil }
        let account =
            switch await engine.account() {
            case .unused: "unused"
            case .signedOut: "signedOut"
            case .signedIn(let id): "signedIn " + id
            }
        let caller = account + "\n" + (await engine.tokens?.rights ?? "")
        return SchemaFinding.Basis(
            schema: schema,
            app: engine.schemaFinding.fingerprint(of: engine.catalog),
            caller: SHA256.hex(Array(SHA256.hash(caller.utf8).prefix(8)))
        )
    }

    /// Keeps a result that the app asked for, and reports it if it is new.
    private func keep(_ finding: SchemaFinding, _ service: RemoteService) async {
        let isNew = engine.schemaFinding.finding != finding
        engine.schemaFinding.set(finding)
        guard isNew else { return }
        await store(finding, service)
        report(finding)
    }

    /// Stores a result for later runs; if the store fails, the next run compares again.
    private func store(_ finding: SchemaFinding, _ service: RemoteService) async {
        let endpoint = service.endpoint.key
        try? await engine.transaction { try finding.write(endpoint, to: $0.store) }
    }

    private func report(_ finding: SchemaFinding) {
        switch finding.result {
        case .compared(let found): engine.events.send(.schemaCompared(differences: found.count))
        case .unavailable: break
        }
    }
}

extension SyncContext {
    /// Compares the app's tables with the server's tables.
    ///
    /// If the server does not have a column or table, it is read as its default, and the server
    /// rejects changes of it. An app can use the differences to ask for an update of the app, or
    /// report them to its authors. Columns that only the server has are differences only if the
    /// server requires a value. Tables and columns that stay on the device are never differences.
    ///
    /// The server's schema document is requested at most once for each change of the schema. Later
    /// calls return the same result until a response to any request shows that the schema has
    /// changed. Automatic sync and ``SyncClient/syncOnce(deadline:_:)`` compare the tables without
    /// a call; see ``knownSchemaDifferences``.
    ///
    /// ```swift
    /// for difference in try await client.syncContext.schemaDifferences() { print(difference) }
    /// ```
    ///
    /// - Returns: The differences, in the order of the tables and columns; empty if the tables
    ///   match.
    /// - Throws: ``SyncError`` with code `storeNotInitialized`, `offline`, `unauthorized`,
    ///   `insecureEndpoint`, `cancelled` or `suspended`. If the server has no schema document, as
    ///   is the case for the original servers, the code is `serverError`.
    public func schemaDifferences() async throws -> [SchemaDifference] {
        try await SchemaCheck(engine: engine()).differences()
    }

    /// The differences between the app's tables and the server's tables that the last comparison
    /// found.
    ///
    /// Automatic sync and ``SyncClient/syncOnce(deadline:_:)`` compare the tables after a sync
    /// whose responses have another `Tideline-Schema` than before. They send
    /// ``SyncEvent/Kind/schemaCompared``, and store the result, so that it is known when the app
    /// starts again. The array is empty before the first comparison, and if the server has no
    /// schema document.
    ///
    /// ```swift
    /// let missing = try client.syncContext.knownSchemaDifferences
    /// if !missing.isEmpty { show("Please update the app.") }
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `storeNotInitialized`.
    public nonisolated var knownSchemaDifferences: [SchemaDifference] {
        get throws { try engine().schemaFinding.differences }
    }
}
