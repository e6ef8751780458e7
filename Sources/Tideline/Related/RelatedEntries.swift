// RelatedEntries: reads the entries of rows and remembers related rows, so that an observation reads only some
// rows again.

import TidelineCore

/// A reader that creates an entry from each row: a record, or a record with its related records.
///
/// The reader remembers the related rows that it has read. An observation therefore keeps it, and a single read
/// discards it.
protocol EntryReading<Record, Entry>: Sendable {
    associatedtype Record: SyncRecord
    associatedtype Entry: Sendable

    /// Returns the entries of rows together with their rows; both exclude rows that are skipped because they do
    /// not decode.
    mutating func entries(
        _ reading: RelatedReading,
        _ table: ReaderTable<Record>,
        _ rows: [Row]
    ) throws -> (rows: [Row], entries: [Entry])

    /// Forgets the related rows that a change touches.
    ///
    /// - Returns: The rows whose entries are no longer current; nil if any row may be among them.
    mutating func forget(_ change: StoreChange, _ reading: RelatedReading) throws -> OutdatedRows?
}

/// A reader of related values, one for each row.
protocol RelatedValues<Value>: Sendable {
    associatedtype Value: Sendable

    /// Returns one value for each row.
    mutating func values(_ reading: RelatedReading, _ rows: [Row]) throws -> [Value]

    /// Forgets the related rows that a change touches; see ``EntryReading/forget(_:_:)``.
    mutating func forget(_ change: StoreChange, _ reading: RelatedReading) throws -> OutdatedRows?
}

/// A reader of records without related records.
struct RecordEntries<Record: SyncRecord>: EntryReading {
    mutating func entries(
        _ reading: RelatedReading,
        _ table: ReaderTable<Record>,
        _ rows: [Row]
    ) throws -> (rows: [Row], entries: [Record]) { try reading.records(of: rows, table) }

    mutating func forget(_ change: StoreChange, _ reading: RelatedReading) -> OutdatedRows? {
        OutdatedRows()
    }
}

/// A reader of records with related values.
struct EntriesWithRelated<Record: SyncRecord, Related: Sendable>: EntryReading {
    private var values: any RelatedValues<Related>

    init(_ values: any RelatedValues<Related>) { self.values = values }

    mutating func entries(
        _ reading: RelatedReading,
        _ table: ReaderTable<Record>,
        _ rows: [Row]
    ) throws -> (rows: [Row], entries: [WithRelated<Record, Related>]) {
        let (rows, records) = try reading.records(of: rows, table)
        let related = try values.values(reading, rows)
        return (rows, zip(records, related).map { WithRelated($0, $1) })
    }

    mutating func forget(_ change: StoreChange, _ reading: RelatedReading) throws -> OutdatedRows? {
        try values.forget(change, reading)
    }
}

/// A reader of the children of each row.
struct ChildValues<Record: SyncRecord, Entry: Sendable>: RelatedValues {
    private var keyed: KeyedEntries<Record, Entry>

    init(_ keyed: KeyedEntries<Record, Entry>) { self.keyed = keyed }

    mutating func values(_ reading: RelatedReading, _ rows: [Row]) throws -> [[Entry]] {
        let keys = rows.map(\.id)
        try keyed.read(reading, keys)
        return keys.map { keyed.entries(of: $0) }
    }

    mutating func forget(_ change: StoreChange, _ reading: RelatedReading) throws -> OutdatedRows? {
        try keyed.forget(change, reading).map { OutdatedRows($0, in: SystemColumn.id) }
    }
}

/// A reader of the parent of each row.
struct ParentValues<Record: SyncRecord, Entry: Sendable>: RelatedValues {
    private var keyed: KeyedEntries<Record, Entry>
    /// The column that refers to the parent.
    private let column: String

    init(_ keyed: KeyedEntries<Record, Entry>, by column: String) {
        (self.keyed, self.column) = (keyed, column)
    }

    mutating func values(_ reading: RelatedReading, _ rows: [Row]) throws -> [Entry?] {
        var member = RowMember(column)
        var keys: [String] = []
        var positions: [ItemKey: Int] = [:]
        let wanted = rows.map { row -> Int? in
            guard let key = member.value(in: row)?.text else { return nil }
            if let position = positions[ItemKey(key)] { return position }
            positions[ItemKey(key)] = keys.count
            keys.append(key)
            return keys.count - 1
        }
        try keyed.read(reading, keys)
        let parents = keys.map { keyed.entries(of: $0).first }
        return wanted.map { $0.flatMap { parents[$0] } }
    }

    mutating func forget(_ change: StoreChange, _ reading: RelatedReading) throws -> OutdatedRows? {
        try keyed.forget(change, reading).map { OutdatedRows($0, in: column) }
    }
}

/// A reader of related values of two kinds.
struct PairValues<First: Sendable, Second: Sendable>: RelatedValues {
    private var first: any RelatedValues<First>
    private var second: any RelatedValues<Second>

    init(_ first: any RelatedValues<First>, _ second: any RelatedValues<Second>) {
        (self.first, self.second) = (first, second)
    }

    mutating func values(
        _ reading: RelatedReading,
        _ rows: [Row]
    ) throws -> [RelatedPair<First, Second>] {
        let (one, two) = (try first.values(reading, rows), try second.values(reading, rows))
        return zip(one, two).map { RelatedPair($0, $1) }
    }

    mutating func forget(_ change: StoreChange, _ reading: RelatedReading) throws -> OutdatedRows? {
        guard var outdated = try first.forget(change, reading),
            let other = try second.forget(change, reading)
        else { return nil }
        outdated.formUnion(other)
        return outdated
    }
}
