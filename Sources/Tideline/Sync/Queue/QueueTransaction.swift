// QueueTransaction: queue, bases, errors and cursors within one transaction of the store.
//
// Only look-ups and rows; what to do is decided by QueueRules, ConflictRules and the machines.

import Foundation
import TidelineCore

/// The synchronised tables of a client, by name.
struct TableCatalog: Sendable {
    let schemas: [String: TableSchema]

    /// Declared columns come first; those of a model that were not declared are added to them.
    init(declared: [TableSchema], models: [TableSchema]) throws {
        var schemas: [String: TableSchema] = [:]
        for schema in declared {
            guard schemas.updateValue(schema, forKey: schema.name) == nil else {
                throw SyncError.tableTwice(schema.name)
            }
        }
        var seen: Set<String> = []
        for model in models {
            guard seen.insert(model.name).inserted else { throw SyncError.tableTwice(model.name) }
            var schema = schemas[model.name] ?? TableSchema(name: model.name, columns: [])
            let known = Set(schema.columns.map(\.name))
            schema.columns += model.columns.filter { !known.contains($0.name) }
            schemas[model.name] = schema
        }
        self.schemas = schemas
    }

    func schema(_ table: String) -> TableSchema? { schemas[table] }
}

struct QueueReader {
    let store: any LocalStoreReader
    let catalog: TableCatalog

    private func operations(_ query: TableQuery) throws -> [QueuedOperation] {
        try store.rows(query, in: SystemTables.operations).compactMap {
            QueuedOperation(row: $0, schema: catalog.schema)
        }
    }

    private func byID(_ filter: Filter?) -> TableQuery {
        var query = TableQuery(filter: filter)
        query.order = [SortKey(column: "id")]
        return query
    }

    /// All operations, in order.
    func operations() throws -> [QueuedOperation] { try operations(byID(nil)) }

    /// The operations of one row, in order: two at most.
    func operations(_ table: String, _ itemID: String) throws -> [QueuedOperation] {
        try operations(
            byID(.equal("itemId", .string(itemID)) && .equal("table", .string(table)))
        )
    }

    func operation(_ id: Int64) throws -> QueuedOperation? {
        try store.row(id: .integer(id), in: SystemTables.operations).flatMap {
            QueuedOperation(row: $0, schema: catalog.schema)
        }
    }

    /// The first operation behind `id` that is not parked.
    func nextOperation(after id: Int64) throws -> QueuedOperation? {
        let notParked = Filter.differs(
            "state",
            from: .integer(QueuedOperation.State.parked.rawValue)
        )
        // By id alone: with the table in the filter SQLite goes by that index and sorts them all.
        var query = byID(.greater("id", .integer(id)) && notParked)
        query.limit = 1
        while let operation = try operations(query).first {
            // Operations of a table that the app no longer names wait until it names it again.
            if catalog.schema(operation.table) != nil { return operation }
            query.filter = .greater("id", .integer(operation.id)) && notParked
        }
        return nil
    }

    func count(table: String? = nil) throws -> Int {
        try store.count(
            table.map { .equal("table", .string($0)) },
            in: SystemTables.operations
        )
    }

    /// The ids of the rows of a table that have operations.
    func pendingIDs(_ table: String) throws -> Set<ItemKey> {
        guard try count(table: table) > 0 else { return [] }
        var query = TableQuery(filter: .equal("table", .string(table)))
        query.select = ["itemId"]
        return Set(
            try store.rows(query, in: SystemTables.operations).compactMap {
                $0["itemId"]?.text.map(ItemKey.init)
            }
        )
    }

    func basis(_ table: String, _ itemID: String) throws -> RowBasis? {
        try store.row(id: SystemTables.baseKey(table, itemID), in: SystemTables.bases).flatMap {
            RowBasis(row: $0, schema: catalog.schema(table))
        }
    }

    /// The cursor of a pull, when it was made with the same filter at the same endpoint.
    func cursor(
        _ table: String,
        _ queryID: String,
        fingerprint: String,
        endpoint: String
    ) throws -> PullCursor? {
        func kept(_ kind: PullCursor.Part) throws -> String? {
            try config(table, queryID, kind.rawValue)
        }
        let (filter, place) = (try kept(.fingerprint), try kept(.endpoint))
        guard filter.map(ItemKey.init) == ItemKey(fingerprint),
            place.map(ItemKey.init) == ItemKey(endpoint)
        else { return nil }
        return PullCursor(
            time: try kept(.time),
            epoch: try kept(.epoch),
            fingerprint: fingerprint,
            endpoint: endpoint
        )
    }

    /// When the last pull of a table ended.
    func lastPull(_ table: String) throws -> Date? {
        try config(table, "", PullCursor.lastPullType).flatMap { Timestamp($0)?.date }
    }

    /// The generation of server that was last met at an endpoint.
    func generation(_ endpoint: String) throws -> ServerDialect? {
        try store.row(id: Self.generationID(endpoint), in: SystemTables.config)?["value"]?.text
            .flatMap(ServerDialect.init(rawValue:))
    }

    fileprivate static func generationID(_ endpoint: String) -> Value {
        .string("generation|" + endpoint)
    }

    private func config(_ table: String, _ queryID: String, _ keyType: Int) throws -> String? {
        let id = Value.string(QueueReader.configID(table, queryID, keyType))
        return try store.row(id: id, in: SystemTables.config)?["value"]?.text
    }

    static func configID(_ table: String, _ queryID: String, _ keyType: Int) -> String {
        "\(table)|\(queryID)|\(keyType)"
    }
}

/// An id as a key: two ids are the same when their UTF-8 bytes are.
struct ItemKey: Hashable, Sendable {
    private let id: String

    init(_ id: String) { self.id = id }

    static func == (left: ItemKey, right: ItemKey) -> Bool {
        left.id.utf8.elementsEqual(right.id.utf8)
    }

    func hash(into hasher: inout Hasher) { hasher.combine(id) }
}

struct QueueTransaction {
    let store: any LocalStoreWriter
    let catalog: TableCatalog

    var reader: QueueReader { QueueReader(store: store, catalog: catalog) }

    func put(_ operation: QueuedOperation) throws {
        try store.put([operation.row], in: SystemTables.operations)
    }

    func remove(_ operation: QueuedOperation) throws {
        try store.delete(ids: [.integer(operation.id)], in: SystemTables.operations)
        try removeErrors(of: operation.id)
    }

    func removeErrors(of operationID: Int64) throws {
        let query = TableQuery(filter: .equal("operationId", .integer(operationID)))
        let ids = try store.rows(query, in: SystemTables.errors).compactMap { $0["id"] }
        if !ids.isEmpty { try store.delete(ids: ids, in: SystemTables.errors) }
    }

    func put(_ basis: RowBasis, _ table: String, _ itemID: String) throws {
        try store.put([basis.row(table, itemID)], in: SystemTables.bases)
    }

    func removeBasis(_ table: String, _ itemID: String) throws {
        try store.delete(ids: [SystemTables.baseKey(table, itemID)], in: SystemTables.bases)
    }

    /// The id of the next operation: behind every stored one, and never one that was used before.
    func nextOperationID() throws -> Int64 {
        let key = Value.string("operation|last")
        let counter = try store.row(id: key, in: SystemTables.config)?["value"]?.text
        let last = try counter.flatMap { Int64($0) } ?? highestOperationID()
        try store.put(
            [
                [
                    "id": key, "key": "operation", "keyType": 2, "table": "",
                    "value": .string(String(last + 1)),
                ]
            ],
            in: SystemTables.config
        )
        return last + 1
    }

    /// For a queue without a counter.
    private func highestOperationID() throws -> Int64 {
        var query = TableQuery()
        query.order = [SortKey(column: "id", ascending: false)]
        query.limit = 1
        guard
            case .integer(let highest) = try store.rows(query, in: SystemTables.operations)
                .first?["id"]
        else { return 0 }
        return highest
    }

    /// Keeps a cursor in place of the one before, which may belong to another endpoint.
    func setCursor(_ cursor: PullCursor, _ table: String, _ queryID: String) throws {
        var rows: [Row] = []
        var without: [Value] = []
        for (part, value) in cursor.parts {
            let id = Value.string(QueueReader.configID(table, queryID, part.rawValue))
            guard let value else {
                without.append(id)
                continue
            }
            rows.append([
                "id": id, "key": .string(queryID), "keyType": .integer(Int64(part.rawValue)),
                "table": .string(table), "value": .string(value),
            ])
        }
        try store.put(rows, in: SystemTables.config)
        if !without.isEmpty { try store.delete(ids: without, in: SystemTables.config) }
    }

    /// Remembers when the last pull of a table ended; for display.
    func setLastPull(_ date: Date, _ table: String) throws {
        try store.put(
            [
                [
                    "id": .string(QueueReader.configID(table, "", PullCursor.lastPullType)),
                    "key": "", "keyType": .integer(Int64(PullCursor.lastPullType)),
                    "table": .string(table), "value": .string(Timestamp(date).text),
                ]
            ],
            in: SystemTables.config
        )
    }

    /// Remembers the generation of server at an endpoint.
    func setGeneration(_ dialect: ServerDialect, _ endpoint: String) throws {
        try store.put(
            [
                [
                    "id": QueueReader.generationID(endpoint), "key": .string(endpoint),
                    "keyType": .integer(Int64(PullCursor.generationType)), "table": "",
                    "value": .string(dialect.rawValue),
                ]
            ],
            in: SystemTables.config
        )
    }

    /// Forgets every cursor of a table.
    func resetCursors(_ table: String) throws {
        let query = TableQuery(
            filter: .equal("table", .string(table))
                && .differs("keyType", from: .integer(Int64(PullCursor.lastPullType)))
        )
        let ids = try store.rows(query, in: SystemTables.config).compactMap { $0["id"] }
        if !ids.isEmpty { try store.delete(ids: ids, in: SystemTables.config) }
    }
}
