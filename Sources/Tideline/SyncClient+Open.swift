// SyncClient+Open: creates a client and opens its store in one step.

public import Foundation
public import TidelineCore

extension SyncClient {
    /// Creates a client and opens its store in one step.
    ///
    /// The parameters are those of the initializer and of
    /// ``SyncContext/initialize(store:tables:schemas:conflicts:tableConflicts:lostRows:)``.
    ///
    /// ```swift
    /// let client = try await SyncClient.open(
    ///     endpoint: URL(string: "https://todo.example.com")!,
    ///     store: try SQLiteStore(path: "todo.sqlite"),
    ///     tables: [TodoItem.self]
    /// )
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `invalidModel`, `unknownTable` for conflict rules of a table that is
    ///   not in `tables` or `schemas`, `newerStore`, `storeFailure` or `cancelled`. An invalid `endpoint` is
    ///   reported by the first call that uses it.
    public static func open(
        endpoint: URL,
        store: any LocalStore,
        tables: [any SyncRecord.Type],
        schemas: [TableSchema] = [],
        conflicts: ConflictPolicy = .fail,
        tableConflicts: [String: ConflictPolicy] = [:],
        lostRows: LostRowPolicy = .ask,
        generation: ServerGeneration = .automatic,
        transport: (any Transport)? = nil,
        authentication: (any Authentication)? = nil,
        limits: SyncLimits = SyncLimits(),
        log: (any SyncLog)? = nil,
        appName: String? = nil,
        appVersion: String? = nil,
        allowsInsecureEndpoint: Bool = false,
        environment: SyncEnvironment = .live
    ) async throws -> SyncClient {
        let client = SyncClient(
            endpoint: endpoint,
            generation: generation,
            transport: transport,
            authentication: authentication,
            limits: limits,
            log: log,
            appName: appName,
            appVersion: appVersion,
            allowsInsecureEndpoint: allowsInsecureEndpoint,
            environment: environment
        )
        try await client.syncContext.initialize(
            store: store,
            tables: tables,
            schemas: schemas,
            conflicts: conflicts,
            tableConflicts: tableConflicts,
            lostRows: lostRows
        )
        return client
    }
}
