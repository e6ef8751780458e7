// KeyedQuery: the rows of a table that match any of several keys, in one query.

public import TidelineCore

/// A query for the rows that have one of several keys in a column.
///
/// A store returns the rows of one key together, in the order of the query. The limit and offset
/// apply to each key separately. The order of the keys does not matter.
public struct KeyedQuery: Sendable {
    /// The condition, order, limit and offset for the rows of each key, and the columns to read.
    ///
    /// If it selects columns, they include ``column``.
    public var query: TableQuery
    /// The name of the column, which contains text.
    public var column: String
    /// The keys, without duplicates.
    public var keys: [String]

    /// Creates a query.
    public init(_ query: TableQuery, column: String, keys: [String]) {
        (self.query, self.column, self.keys) = (query, column, keys)
        if let names = query.select, !names.contains(column) {
            self.query.select = names + [column]
        }
    }

    /// Returns the result, given the matching rows of all keys in the query's order.
    func divided(_ rows: [Row]) -> [Row] {
        var places: [ItemKey: Int] = [:]
        for (place, key) in keys.enumerated() { places[ItemKey(key)] = place }
        var groups: [[Row]] = Array(repeating: [], count: keys.count)
        var member = RowMember(column)
        for row in rows {
            guard let key = member.value(in: row)?.text, let place = places[ItemKey(key)] else {
                continue
            }
            groups[place].append(row)
        }
        let (offset, limit) = (max(0, query.offset), query.limit.map { max(0, $0) })
        return groups.flatMap { group in
            let rest = group.dropFirst(offset)
            return limit.map { rest.prefix($0) } ?? rest
        }
    }
}
