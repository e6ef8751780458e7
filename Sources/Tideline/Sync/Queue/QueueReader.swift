// QueueReader: reads the operation queue.

import TidelineCore

/// A reader of the operation queue within one transaction of the store.
struct QueueReader {
    let store: any LocalStoreReader
    let catalog: TableCatalog
    /// The account that is signed in.
    let account: AccountView

    private func operations(_ query: TableQuery) throws -> [QueuedOperation] {
        try store.rows(query, in: SystemTables.operations).map(operation)
    }

    private func operation(_ row: Row) -> QueuedOperation {
        QueuedOperation(storedRow: row, schema: catalog.schema)
    }

    private func byID(_ filter: Filter?) -> TableQuery {
        var query = TableQuery(filter: filter)
        query.order = [SortKey(column: "id")]
        return query
    }

    /// Returns all operations, in order.
    func operations() throws -> [QueuedOperation] { try operations(byID(nil)) }

    /// Returns the first two operations and the last operation of a row, in order.
    ///
    /// If many transactions changed a row, the row has as many operations. Callers of this method
    /// never need the others.
    func operations(_ table: String, _ itemID: String) throws -> [QueuedOperation] {
        var query = byID(Self.row(table, itemID))
        query.limit = 2
        let first = try operations(query)
        guard first.count == 2 else { return first }
        query.order = [SortKey(column: "id", ascending: false)]
        query.limit = 1
        return first + (try operations(query).filter { $0.id > first[1].id })
    }

    /// Returns the operation on the same row that directly precedes another one.
    func operation(before operation: QueuedOperation) throws -> QueuedOperation? {
        let isBefore = Filter.less("id", .integer(operation.id))
        var query = byID(Self.row(operation.table, operation.itemID) && isBefore)
        query.order = [SortKey(column: "id", ascending: false)]
        query.limit = 1
        return try operations(query).first
    }

    /// Returns all operations of one row, in order.
    func allOperations(_ table: String, _ itemID: String) throws -> [QueuedOperation] {
        try operations(byID(Self.row(table, itemID)))
    }

    /// Returns the operations of an account, in order; for nil, the operations that belong to no
    /// account.
    func operations(of account: String?) throws -> [QueuedOperation] {
        try operations().filter { $0.account.map(ItemKey.init) == account.map(ItemKey.init) }
    }

    /// Returns whether a later operation on the same row deletes or replaces the row.
    ///
    /// If so, no value of the earlier operations remains.
    func isReplaced(behind operation: QueuedOperation) throws -> Bool {
        let kinds = [OperationKind.delete, .insert].map { Value.integer(Int64($0.rawValue)) }
        let isNew: Filter = .isIn("kind", kinds)
        let isWhole: Filter = .equal("sendsWholeRow", .bool(true)) && .equal("basisVersion", .null)
        let isBehind: Filter = .greater("id", .integer(operation.id)) && (isNew || isWhole)
        var query = TableQuery(filter: Self.row(operation.table, operation.itemID) && isBehind)
        query.select = ["id"]
        query.limit = 1
        return try !store.rows(query, in: SystemTables.operations).isEmpty
    }

    private static func row(_ table: String, _ itemID: String) -> Filter {
        .equal("itemId", .string(itemID)) && .equal("table", .string(table))
    }

    /// Returns the operations of all rows that the given operations belong to, in order.
    func operations(ofRowsOf some: [QueuedOperation]) throws -> [RowKey: [QueuedOperation]] {
        var result: [RowKey: [QueuedOperation]] = [:]
        if some.count <= Self.rowsOneByOne {
            for one in some where result[one.row] == nil {
                result[one.row] = try operations(one.table, one.itemID)
            }
            return result
        }
        for (table, some) in Dictionary(grouping: some, by: \.table) {
            for start in stride(from: 0, to: some.count, by: Self.rowsAtOnce) {
                let part = some[start..<min(some.count, start + Self.rowsAtOnce)]
                let ids = part.map { Value.string($0.itemID) }
                let those: Filter = .isIn("itemId", ids) && .equal("table", .string(table))
                for operation in try operations(byID(those)) {
                    result[operation.row, default: []].append(operation)
                }
            }
        }
        return result
    }

    private static let rowsAtOnce = 250

    /// The maximum number of rows whose operations are read with one query for each row.
    private static let rowsOneByOne = 50

    func operation(_ id: Int64) throws -> QueuedOperation? {
        try store.row(id: .integer(id), in: SystemTables.operations).map(operation)
    }

    /// Returns the operations of a group, in order.
    func members(of group: String) throws -> [QueuedOperation] {
        try operations(byID(.equal("group", .string(group))))
    }

    func count(group: String) throws -> Int {
        try store.count(.equal("group", .string(group)), in: SystemTables.operations)
    }

    func hasGroups() throws -> Bool {
        var query = TableQuery(filter: .greater("group", ""))
        query.select = ["id"]
        query.limit = 1
        return try !store.rows(query, in: SystemTables.operations).isEmpty
    }

    /// Returns the first operations after `place` that are not parked, in order.
    func operations(after place: Int64, limit: Int) throws -> [QueuedOperation] {
        let notParked = Filter.differs(
            "state",
            from: .integer(QueuedOperation.State.parked.rawValue)
        )
        // The filter has no table, because SQLite would then use the table's index and sort all
        // operations.
        var query = byID(.greater("id", .integer(place)) && notParked)
        query.limit = limit
        return try operations(query)
    }

    /// Returns the first operations after `place`, including parked ones, in order.
    func allOperations(after place: Int64, limit: Int) throws -> [QueuedOperation] {
        var query = byID(.greater("id", .integer(place)))
        query.limit = limit
        return try operations(query)
    }

    /// Returns the rows of the parked operations that cannot be decoded.
    func unreadableRows() throws -> Set<RowKey> {
        var rows: Set<RowKey> = []
        for id in try parkedIDs() {
            guard let operation = try operation(id), operation.damage != nil else { continue }
            rows.insert(operation.row)
        }
        return rows
    }

    /// Returns the rows of the parked operations; later operations on such a row wait.
    func parkedRows() throws -> Set<RowKey> {
        var query = byID(.equal("state", .integer(QueuedOperation.State.parked.rawValue)))
        query.select = ["table", "itemId"]
        return Set(
            try store.rows(query, in: SystemTables.operations).compactMap { row in
                guard let table = row["table"]?.text, let id = row["itemId"]?.text else {
                    return nil
                }
                return RowKey(table, id)
            }
        )
    }

    /// Returns the ids of the parked operations.
    func parkedIDs() throws -> [Int64] {
        try operationIDs(.equal("state", .integer(QueuedOperation.State.parked.rawValue)))
    }

    /// Returns the ids of the operations on tables that the app does not declare.
    func idsOfUnnamedTables() throws -> [Int64] {
        let names = catalog.schemas.keys.sorted()
        // Usually, counting with the index is enough.
        guard try count() > names.reduce(0, { try $0 + count(table: $1) }) else { return [] }
        var others: Filter?
        for name in names {
            let other = Filter.differs("table", from: .string(name))
            others = others.map { $0 && other } ?? other
        }
        return try operationIDs(others)
    }

    private func operationIDs(_ filter: Filter?) throws -> [Int64] {
        var query = byID(filter)
        query.select = ["id"]
        return try store.rows(query, in: SystemTables.operations).compactMap {
            if case .integer(let id) = $0["id"] { id } else { nil }
        }
    }

    /// The position before all operations, including operations whose id was written by another
    /// program.
    static let start = Int64.min

    /// Returns the position of the last operation in the queue; 0 if it is empty.
    func lastID() throws -> Int64 {
        var query = TableQuery()
        query.order = [SortKey(column: "id", ascending: false)]
        query.limit = 1
        return try operations(query).first?.id ?? 0
    }

    func count(table: String? = nil) throws -> Int {
        try store.count(
            table.map { .equal("table", .string($0)) },
            in: SystemTables.operations
        )
    }

    /// Returns the ids of the rows of a table that have operations.
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

    /// Returns the ids of a table's rows that the account inserted and that the server does not
    /// have yet.
    func unsentInserts(_ table: String) throws -> Set<ItemKey> {
        func query(_ kind: OperationKind) -> TableQuery {
            let isKind: Filter = .equal("kind", .integer(Int64(kind.rawValue)))
            return TableQuery(filter: .equal("table", .string(table)) && isKind)
        }
        // Most pulls find no insert, and do not have to read operations.
        var narrow = query(.insert)
        narrow.select = ["itemId"]
        narrow.limit = 1
        guard try !store.rows(narrow, in: SystemTables.operations).isEmpty else { return [] }
        let unsent = try operations(query(.insert)).filter {
            !$0.isAttempted && !$0.outcomeUnknown && $0.basis.lastKnown == nil && account.owns($0)
        }
        guard !unsent.isEmpty else { return [] }
        // An insert after an unsent delete replaces a row that the server has.
        let deleted = try operations(query(.delete)).map { ItemKey($0.itemID) }
        return Set(unsent.map { ItemKey($0.itemID) }).subtracting(deleted)
    }

    /// Returns the ids of the rows that a filter matches.
    func ids(_ filter: Filter?, in table: String) throws -> [String] {
        var query = TableQuery(filter: filter)
        query.select = [SystemColumn.id]
        return try store.rows(query, in: table).map(\.id)
    }

    /// Returns the known server states of a row; nil if the row has no operations.
    func basis(_ table: String, _ itemID: String) throws -> RowBasis? {
        try operations(table, itemID).first?.basis
    }

    // MARK: - Rows

    /// Returns the row on this device; nil if there is none, or if the app does not declare the
    /// table.
    func localRow(of operation: QueuedOperation) throws -> Row? {
        guard catalog.names(tableOf: operation) else { return nil }
        return try store.row(id: .string(operation.itemID), in: operation.table)
    }

    /// Returns the row after an operation; nil if there is none, or if the app does not declare the
    /// table.
    func localRow(after operation: QueuedOperation) throws -> Row? {
        guard catalog.names(tableOf: operation) else { return nil }
        return operation.result(
            local: try store.row(id: .string(operation.itemID), in: operation.table)
        )
    }

    // MARK: - Configuration

    /// Returns a value of the configuration, which has one row for each table, key and type.
    func config(_ table: String, _ key: String, _ keyType: Int) throws -> String? {
        let id = Value.string(Self.configID(table, key, keyType))
        return try store.row(id: id, in: SystemTables.config)?["value"]?.text
    }

    static func configID(_ table: String, _ key: String, _ keyType: Int) -> String {
        "\(table)|\(key)|\(keyType)"
    }
}
