// KeyedEntries: the related records of many keys; one read fetches the records of all unknown keys.

import TidelineCore

/// The entries of the rows whose value in a column is one of several keys.
struct KeyedEntries<Record: SyncRecord, Entry: Sendable>: Sendable {
    /// The rows of a key.
    private struct Group: Sendable {
        /// All rows, including those that do not decode; empty in a read outside of an observation.
        var rows: [Row] = []
        var entries: [Entry] = []
    }

    private let query: TableQuery
    private let column: String
    private var reader: any EntryReading<Record, Entry>
    private var groups: [ItemKey: Group] = [:]
    /// The keys whose rows are current, but whose entries are not.
    private var outdated: Set<ItemKey> = []
    /// The key of each row by the row's id; nil until a change needs it.
    private var owners: [ItemKey: ItemKey]?
    /// The number of keys above which all keys are read again, because most of them are no longer needed.
    private var groupsMax: Int?

    init(_ included: IncludedQuery<Record, Entry>, by column: String) {
        query = included.query
        reader = included.reader
        self.column = column
    }

    /// Reads the rows of the keys that are not known, and updates outdated entries.
    ///
    /// `keys` must not have duplicates.
    mutating func read(_ reading: RelatedReading, _ keys: [String]) throws {
        let table = try reading.reader.table(Record.self)
        let missing = keys.filter { groups[ItemKey($0)] == nil }
        var rows = try table.rows(query, where: column, isOneOf: missing, reading.scope)
        for key in missing { groups[ItemKey(key)] = Group() }
        // Keys that were forgotten are read when they are requested again.
        for key in outdated where groups[key] != nil {
            rows += groups[key]?.rows ?? []
            groups[key] = Group()
        }
        outdated = []
        if groupsMax == nil { groupsMax = 2 * groups.count + 100 }
        guard !rows.isEmpty else { return }
        let (fitting, entries) = try reader.entries(reading, table, rows)
        for (key, range) in RowGroups(fitting, by: column) {
            groups[key]?.entries = Array(entries[range])
        }
        guard reading.scope != .once else { return }
        for (key, range) in RowGroups(rows, by: column) {
            groups[key]?.rows = Array(rows[range])
            if owners != nil { for row in rows[range] { owners?[ItemKey(row.id)] = key } }
        }
    }

    /// Returns the entries of a key that was read.
    func entries(of key: String) -> [Entry] { groups[ItemKey(key)]?.entries ?? [] }

    /// Forgets the rows of the keys that a change touches.
    ///
    /// - Returns: The keys whose entries are no longer current; nil if any key may be among them.
    mutating func forget(_ change: StoreChange, _ reading: RelatedReading) throws -> Set<ItemKey>? {
        guard let related = try reader.forget(change, reading),
            groupsMax.map({ groups.count <= $0 }) ?? true
        else { return nil }
        let table = try reading.reader.table(Record.self)
        var keys: Set<ItemKey> = []
        switch change.tables[table.coder.table.name] {
        case nil: break
        case .all: return nil
        case .rows(let rows):
            let condition = table.conditionOnChanges(query.filter)
            for changed in rows {
                if let owner = owner(ofRow: changed.id) { keys.insert(owner) }
                guard let row = changed.row, let key = row[column]?.text,
                    groups[ItemKey(key)] != nil, condition?.matches(row) ?? true
                else { continue }
                keys.insert(ItemKey(key))
            }
        }
        for key in keys {
            for row in groups[key]?.rows ?? [] { owners?[ItemKey(row.id)] = nil }
            groups[key] = nil
        }
        for id in related.ids {
            if let owner = owner(ofRow: id) { outdated.insert(owner) }
        }
        if !related.byColumn.isEmpty {
            for (key, group) in groups {
                related.forEach(in: group.rows) { _ in outdated.insert(key) }
            }
        }
        return keys.union(outdated)
    }

    /// Returns the key of a row that was read.
    private mutating func owner(ofRow id: ItemKey) -> ItemKey? {
        if let owners { return owners[id] }
        var all: [ItemKey: ItemKey] = [:]
        for (key, group) in groups {
            for row in group.rows { all[ItemKey(row.id)] = key }
        }
        owners = all
        return all[id]
    }
}

/// The ranges of rows that have the same key, each with the key.
private struct RowGroups: Sequence, IteratorProtocol {
    private let rows: [Row]
    private var member: RowMember
    private var position = 0

    init(_ rows: [Row], by column: String) {
        self.rows = rows
        member = RowMember(column)
    }

    mutating func next() -> (key: ItemKey, range: Range<Int>)? {
        while position < rows.count {
            let start = position
            let key = key(of: start)
            repeat {
                position += 1
            } while position < rows.count && isSame(key, self.key(of: position))
            if let key { return (ItemKey(key), start..<position) }
        }
        return nil
    }

    private mutating func key(of index: Int) -> String? { member.value(in: rows[index])?.text }

    private func isSame(_ one: String?, _ two: String?) -> Bool {
        guard let one, let two else { return false }
        return one.hasSameBytes(as: two)
    }
}
