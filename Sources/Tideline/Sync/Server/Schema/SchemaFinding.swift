// SchemaFinding: the result of a comparison of the app's tables with the server's tables, and its
// stored form in MS_TableConfig.

import Foundation
import TidelineCore

/// The result of a comparison of the app's tables with a server's tables.
struct SchemaFinding: Sendable, Hashable {
    /// The facts that a result depends on; if one of them changes, the tables are compared again.
    struct Basis: Sendable, Hashable {
        /// The `Tideline-Schema` of the server.
        var schema: String
        /// The fingerprint of the app's schema document.
        var app: String
        /// A hash of the account and its rights, because the server's document depends on the
        /// caller.
        var caller: String
    }

    enum Result: Sendable, Hashable {
        case compared([SchemaDifference])
        /// The server has no document for this caller, or the client cannot read the document.
        ///
        /// It is not requested again as long as the facts in ``Basis`` do not change.
        case unavailable(status: Int)
    }

    var basis: Basis
    var result: Result

    /// The differences; empty if the documents were not compared.
    var differences: [SchemaDifference] {
        switch result {
        case .compared(let differences): differences
        case .unavailable: []
        }
    }

    /// Creates a result, which keeps only the first thousand differences.
    init(_ basis: Basis, _ result: Result) {
        self.basis = basis
        switch result {
        case .compared(let differences):
            self.result = .compared(Array(differences.prefix(Self.differencesMax)))
        case .unavailable: self.result = result
        }
    }

    private static let differencesMax = 1000
}

// MARK: - Storage

extension SchemaFinding {
    /// The stored form of a result.
    private struct Stored: Codable {
        struct Difference: Codable {
            var table: String
            var column: String?
            var reason: String
        }

        var schema: String
        var app: String
        var caller: String
        var status: Int
        var differences: [Difference]
    }

    /// The stored form of the result, as text.
    var text: String {
        let status =
            switch result {
            case .compared: 200
            case .unavailable(let status): status
            }
        let stored = Stored(
            schema: basis.schema,
            app: basis.app,
            caller: basis.caller,
            status: status,
            differences: differences.map {
                Stored.Difference(table: $0.table, column: $0.column, reason: $0.reason)
            }
        )
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return (try? encoder.encode(stored)).map { String(decoding: $0, as: UTF8.self) } ?? ""
    }

    /// Parses the stored form of a result; nil if the text is not valid.
    init?(text: String) {
        guard let stored = try? JSONDecoder().decode(Stored.self, from: Data(text.utf8)) else {
            return nil
        }
        let differences = stored.differences.map {
            SchemaDifference(table: $0.table, column: $0.column, reason: $0.reason)
        }
        self.init(
            Basis(schema: stored.schema, app: stored.app, caller: stored.caller),
            stored.status == 200 ? .compared(differences) : .unavailable(status: stored.status)
        )
    }
}

extension SchemaFinding {
    private static func id(_ endpoint: String) -> Value { .string("schema|\(endpoint)") }

    /// Returns the result of the last comparison with the server of an endpoint; nil if there is
    /// none.
    static func read(
        _ endpoint: String,
        from store: any LocalStoreReader
    ) throws -> SchemaFinding? {
        try store.row(id: id(endpoint), in: SystemTables.config)?["value"]?.text
            .flatMap(SchemaFinding.init(text:))
    }

    /// Stores the result of a comparison with the server of an endpoint.
    func write(_ endpoint: String, to store: any LocalStoreWriter) throws {
        let row: Row = [
            "id": Self.id(endpoint), "key": "schema", "keyType": 3, "table": "",
            "value": .string(text),
        ]
        try store.put([row], in: SystemTables.config)
    }
}
