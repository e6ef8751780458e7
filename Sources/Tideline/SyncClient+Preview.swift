// SyncClient: a client for previews and tests, with a store in memory and no network.

import Foundation

extension SyncClient {
    /// Creates a client with a new store in memory and no network, for previews of views and for tests.
    ///
    /// ```swift
    /// let client = try await SyncClient.preview(seed: [TodoItem(text: "Buy milk")])
    /// let todos = try client.syncTable(TodoItem.self)
    /// ```
    ///
    /// Changes by the app are queued as usual. A push fails as it does without a network.
    ///
    /// - Parameters:
    ///   - seed: The records that the store starts with, as if the server had sent them; nothing is queued.
    ///   - tables: The record types. The types of the seed may be omitted.
    /// - Returns: A client whose context is initialized.
    /// - Throws: ``SyncError`` if a schema cannot be derived or a record cannot be stored.
    public static func preview(
        seed: [any SyncRecord] = [],
        tables: [any SyncRecord.Type] = []
    ) async throws -> SyncClient {
        var environment = SyncEnvironment.live
        environment.makeInstallationID = nil
        let client = SyncClient(
            endpoint: URL(string: "http://127.0.0.1") ?? URL(filePath: "/"),
            transport: NoNetwork(),
            environment: environment
        )
        var types: [String: any SyncRecord.Type] = [:]
        for type in tables + seed.map({ Swift.type(of: $0) }) { types[type.tableName] = type }
        try await client.syncContext.initialize(
            store: SQLiteStore(path: ":memory:"),
            tables: types.keys.sorted().compactMap { types[$0] }
        )
        let engine = try client.syncContext.engine()
        let rows = try seed.map { (type(of: $0).tableName, try $0.rowOfServer(client, engine)) }
        var seen: Set<[String]> = []
        for (table, row) in rows where !seen.insert([table, row.id]).inserted {
            throw SyncError.alreadyExists(table: table, id: row.id)
        }
        try await engine.transaction { queue in
            try queue.unmasked.settingLocalColumns {
                for (table, row) in rows { try queue.store.put([row], in: table) }
            }
        }
        return client
    }
}

extension SyncRecord {
    /// Returns the record's row as the server would have sent it.
    fileprivate func rowOfServer(_ client: SyncClient, _ engine: SyncEngine) throws -> Row {
        var row = try client.syncTable(Self.self).coder.encode(self)
        row = try NewRow(row, table: Self.tableName, engine.environment).row
        if row.version == nil { row[SystemColumn.version] = "AAAAAAAAAAE=" }
        return row
    }
}

/// A transport that sends nothing and always fails.
private struct NoNetwork: Transport {
    func send(_ request: TransportRequest) async throws -> TransportResponse {
        throw TransportError(.cannotConnect, "A preview has no network.", outcomeIsUnknown: false)
    }
}
