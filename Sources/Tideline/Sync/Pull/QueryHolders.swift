// QueryHolders: the effect of a response to a push on the membership mask of its row.
//
// A row that was written on this device has the bits of all queries until they report it. If a response shows
// the server's earlier row (a conflict that the server won, an edit that was discarded), no query will report
// it. The bits of the queries whose filters the row does not match are therefore cleared immediately. Rows
// without any bit are removed at the end of the next pull.

import TidelineCore

/// A query of a table with an id.
struct HoldingQuery {
    var bit: Int64
    /// The filter; nil if the query returns all rows.
    var filter: Filter?
}

extension QueueReader {
    /// Returns the queries of a table that may contain rows, as far as their filters can be read on the device.
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
    /// Clears the bits of the queries that the server's row does not match.
    func confirmHolders(of server: Row, _ table: String) throws {
        let id = Value.string(server.id)
        guard try unmasked.taken(table) != 0,
            let stored = try unmasked.inner.row(id: id, in: table),
            let mask = MembershipMask.bits(stored)
        else { return }
        // While the row had operations, it was removed from the last query.
        if mask == 0 { return try setHasRowsWithoutQuery(true, table) }
        var rest = mask
        for query in try unmasked.holdingQueries(table, reader) where rest & query.bit != 0 {
            if let filter = query.filter, !matches(server, filter, table) { rest &= ~query.bit }
        }
        guard rest != mask else { return }
        try unmasked.inner.setMask(rest, of: stored, in: table)
        if rest == 0 { try setHasRowsWithoutQuery(true, table) }
    }

    /// Returns whether the row matches, or the device cannot evaluate the filter.
    private func matches(_ row: Row, _ filter: Filter, _ table: String) -> Bool {
        guard let schema = catalog.schema(table) else { return true }
        var query = TableQuery(filter: filter)
        query.includesDeleted = true
        guard let checked = try? FilterChecker(onDevice: schema).query(query) else { return true }
        return !checked.apply(to: [row]).rows.isEmpty
    }
}
