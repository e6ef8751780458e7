// QueryHolders: what an answer to a push says about who holds its row.
//
// A row that was written here has the bits of all queries until they tell of it. Where the answer
// shows the server's row as it was before (a conflict that the server won, an edit that was
// discarded), nobody will tell of it: a query whose filter the row does not match lets go of it at
// once. What nobody holds then leaves at the end of the next pull.

import TidelineCore

/// A query of a table with an id.
struct HoldingQuery {
    var bit: Int64
    /// Nil for all rows.
    var filter: Filter?
}

extension QueueReader {
    /// The queries of a table that hold rows, as far as their filters can be read here.
    func holdingQueries(_ table: String) throws -> [HoldingQuery] {
        var (numbers, filters) = ([String: Int](), [String: String]())
        let query = TableQuery(filter: .equal("table", .string(table)))
        for row in try store.rows(query, in: SystemTables.config) {
            guard let key = row["key"]?.text, let value = row["value"]?.text,
                case .integer(let type) = row["keyType"]
            else { continue }
            if type == PullCursor.Part.fingerprint.rawValue { filters[key] = value }
            if type == QueryHold.numberType { numbers[key] = Int(value) }
        }
        return numbers.compactMap { key, number in
            guard (1..<QueryHold.shared).contains(number), let text = filters[key],
                let query = try? Query<Row>(odata: text)
            else { return nil }
            return HoldingQuery(bit: 1 << Int64(number), filter: query.table.filter)
        }
    }
}

extension QueueTransaction {
    /// Takes off the bits of the queries that the server's row does not match.
    func confirmHolders(of server: Row, _ table: String) throws {
        let id = Value.string(server.id)
        guard try held.taken(table) != 0, let stored = try held.inner.row(id: id, in: table),
            let mask = HeldMask.bits(stored)
        else { return }
        // Nobody held it any more while it had operations.
        if mask == 0 { return try setHasUnheld(true, table) }
        var rest = mask
        for query in try held.holdingQueries(table, reader) where rest & query.bit != 0 {
            if let filter = query.filter, !matches(server, filter, table) { rest &= ~query.bit }
        }
        guard rest != mask else { return }
        try held.inner.setMask(rest, of: stored, in: table)
        if rest == 0 { try setHasUnheld(true, table) }
    }

    /// Also true for a filter that cannot be told here.
    private func matches(_ row: Row, _ filter: Filter, _ table: String) -> Bool {
        guard let schema = catalog.schema(table) else { return true }
        var query = TableQuery(filter: filter)
        query.includesDeleted = true
        guard let checked = try? FilterChecker(onDevice: schema).query(query) else { return true }
        return !checked.apply(to: [row]).rows.isEmpty
    }
}
