// StoredTable: a table of the in-memory backend with its rows.

import TidelineCore
import TidelineServerCore

/// A table with its rows, its change log and its clock.
struct StoredTable: Sendable {
    /// A row as it was before it may have left a visibility filter.
    struct Departure: Sendable {
        /// The commit timestamp of the change.
        var timestamp: Int64
        var isDeleted: Bool
        var row: MemoryRow
    }

    var name: String
    var columns: [ColumnDefinition] = []
    var rows: [[UInt8]: MemoryRow] = [:]
    var clock = TableClock()
    /// The change log, in the order of commits.
    var log: [Departure] = []
    var logScope = LogScope.nothing
    /// The milliseconds of commit timestamps that rows no longer have.
    var leftMilliseconds: Set<Int64> = []
    /// The replaced versions of each row, for merges, oldest first.
    var bases: [[UInt8]: [MemoryRow]] = [:]

    init(_ name: String) { self.name = name }

    /// Returns the next commit timestamp.
    ///
    /// Each has a millisecond of its own, because classic clients page by the milliseconds of rows.
    func nextTimestamp(_ now: Int64) -> Int64 { max((clock.timestamp / 1000 + 1) * 1000, now) }

    /// Returns the row with the columns of a table; nil if it does not exist.
    func image(_ id: String, _ table: MemoryTable) -> RowImage? {
        rows[MemoryRow.key(id)].map(table.image)
    }

    /// Stores the planned change of a row.
    mutating func perform(
        _ change: WritePlan.Change,
        at timestamp: Int64,
        _ table: MemoryTable,
        basesMax: Int
    ) {
        switch change {
        case .nothing: return
        case .insert(let image):
            let defaults = columns.map { ($0.name.lowercased(), $0.storedDefault) }
            rows[MemoryRow.key(image.id)] = table.row(
                image,
                over: Dictionary(defaults) { $1 }
            )
        case .update(let image, columns: _, from: let old):
            let key = MemoryRow.key(old.id)
            if table.keepsBases, let row = rows[key] {
                bases[key] = Array(((bases[key] ?? []) + [row]).suffix(basesMax))
            }
            leave(old.updatedAt)
            if table.log.isNeeded(for: old, image) {
                add(old, image.isDeleted, timestamp, table)
            }
            rows[key] = table.row(image, over: rows[key]?.values ?? [:])
        case .remove(let old):
            leave(old.updatedAt)
            add(old, true, timestamp, table)
            rows[MemoryRow.key(old.id)] = nil
            bases[MemoryRow.key(old.id)] = nil
        }
        clock.timestamp = timestamp
    }

    /// Records that a row loses its commit timestamp.
    mutating func leave(_ timestamp: Int64) { leftMilliseconds.insert(timestamp / 1000) }

    private mutating func add(
        _ old: RowImage,
        _ isDeleted: Bool,
        _ timestamp: Int64,
        _ table: MemoryTable
    ) {
        let row = table.row(table.log.loggedPart(old))
        log.append(Departure(timestamp: timestamp, isDeleted: isDeleted, row: row))
    }

    mutating func raiseHorizon(to timestamp: Int64) {
        clock.horizon = max(clock.horizon, timestamp)
    }
}

// MARK: - Unique rules

extension StoredTable {
    /// Returns the rejection of a change that would make two rows equal; nil if it makes none.
    func uniqueRejection(of change: WritePlan.Change, _ table: MemoryTable) -> ServerError? {
        guard let (image, rules) = change.uniqueRules(of: table.table) else { return nil }
        let others = liveRows(table).filter {
            MemoryRow.key($0.id) != MemoryRow.key(image.id)
        }
        for rule in rules {
            guard let values = rule.values(of: image)?.map(\.exact) else { continue }
            let isTaken = others.contains { rule.values(of: $0)?.map(\.exact) == values }
            if isTaken { return rule.rejection }
        }
        return nil
    }

    /// Checks that the rows follow the `unique` rules of a table.
    func checkUniqueRules(_ table: MemoryTable) throws {
        let rows = liveRows(table)
        for rule in table.table.uniqueRules {
            let values = rows.compactMap { rule.values(of: $0)?.map(\.exact) }
            let equal = Dictionary(grouping: values) { $0 }.values.filter { $0.count > 1 }.joined()
            guard equal.isEmpty else {
                throw SchemaError.notUnique(rule.columns, in: name, rows: Int64(equal.count))
            }
        }
    }

    private func liveRows(_ table: MemoryTable) -> [RowImage] {
        rows.values.filter { !$0.isDeleted }.map(table.image)
    }
}
