// RelatedPart: reads the related records of many records at once.

import TidelineCore

/// The related records of one kind, for each record of a query.
struct RelatedPart<Value: Sendable>: Sendable {
    /// The columns of the records that the related ones are found by.
    let columns: [String]
    /// Returns one value for each row of the records.
    let read: @Sendable (RelatedReading, [Row]) throws -> [Value]
}

extension RelatedPart {
    /// Returns the children of each record.
    static func children<Parent: SyncRecord, Record, Entry>(
        _ children: IncludedQuery<Record, Entry>,
        of parent: Parent.Type,
        on reference: PartialKeyPath<Record>?
    ) throws -> RelatedPart where Value == [Entry] {
        let column = try RecordSchema.column(of: reference, to: parent)
        return RelatedPart(columns: [SystemColumn.id]) { reading, parents in
            let table = try reading.reader.table(Record.self)
            let keys = parents.map(\.id)
            let found = try table.rows(children.query, where: column, isOneOf: keys)
            let (rows, entries) = try children.entries(reading, table, found)
            var lists: [[Entry]] = Array(repeating: [], count: keys.count)
            for (place, range) in RowGroups(rows, by: column, keys) {
                lists[place] += entries[range]
            }
            return lists
        }
    }

    /// Returns the parent of each record.
    static func parent<Child: SyncRecord, Record, Entry>(
        _ parent: IncludedQuery<Record, Entry>,
        of child: Child.Type,
        on reference: PartialKeyPath<Child>?
    ) throws -> RelatedPart where Value == Entry? {
        let column = try RecordSchema.column(of: reference, to: Record.self)
        guard parent.query.limit == nil, parent.query.offset == 0 else {
            throw SyncError.unsupportedQuery(
                "a limit of parents. A record has at most one: remove the limit and the offset."
            )
        }
        return RelatedPart(columns: [column]) { reading, children in
            let table = try reading.reader.table(Record.self)
            var member = RowMember(column)
            var keys: [String] = []
            var places: [ItemKey: Int] = [:]
            let wanted = children.map { child -> Int? in
                guard let key = member.value(in: child)?.text else { return nil }
                if let place = places[ItemKey(key)] { return place }
                places[ItemKey(key)] = keys.count
                keys.append(key)
                return keys.count - 1
            }
            let found = try table.rows(parent.query, where: SystemColumn.id, isOneOf: keys)
            let (rows, entries) = try parent.entries(reading, table, found)
            var parents: [Entry?] = Array(repeating: nil, count: keys.count)
            for (row, entry) in zip(rows, entries) {
                guard let place = places[ItemKey(row.id)] else { continue }
                parents[place] = entry
            }
            return wanted.map { $0.flatMap { parents[$0] } }
        }
    }
}

extension RelatedPart {
    /// Returns the related records of two kinds.
    static func pair<First, Second>(
        _ first: RelatedPart<First>,
        _ second: RelatedPart<Second>
    ) -> RelatedPart where Value == RelatedPair<First, Second> {
        RelatedPart(columns: first.columns + second.columns) { reading, rows in
            zip(try first.read(reading, rows), try second.read(reading, rows)).map(RelatedPair.init)
        }
    }
}

/// The ranges of rows that have the same key, each with the position of the key.
private struct RowGroups: Sequence, IteratorProtocol {
    private let rows: [Row]
    private var member: RowMember
    private var places: [ItemKey: Int] = [:]
    private var position = 0

    init(_ rows: [Row], by column: String, _ keys: [String]) {
        self.rows = rows
        member = RowMember(column)
        places.reserveCapacity(keys.count)
        for (place, key) in keys.enumerated() { places[ItemKey(key)] = place }
    }

    mutating func next() -> (place: Int, range: Range<Int>)? {
        while position < rows.count {
            let start = position
            let key = key(of: start)
            repeat {
                position += 1
            } while position < rows.count && isSame(key, self.key(of: position))
            if let key, let place = places[ItemKey(key)] { return (place, start..<position) }
        }
        return nil
    }

    private mutating func key(of index: Int) -> String? { member.value(in: rows[index])?.text }

    private func isSame(_ one: String?, _ two: String?) -> Bool {
        guard let one, let two else { return false }
        return one.hasSameBytes(as: two)
    }
}
