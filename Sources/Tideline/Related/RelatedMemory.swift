// RelatedMemory: remembers the entries of an observed query of related records, so that after a change only the
// affected rows are read.

import Synchronization
import TidelineCore

/// The extent to which a read of related records uses the results of an earlier read.
enum ReadScope {
    /// Nothing is kept for another read.
    case once
    /// Everything is read, and kept for the next read of an observation.
    case all
    /// Only what has changed is read.
    case changes
}

/// The entries of an observed query of related records, and the rows that they consist of.
final class RelatedMemory<Record: SyncRecord, Entry: Sendable>: Sendable {
    /// The result of a run.
    struct Value: Sendable {
        var entries: [Entry]
        /// Whether all rows were read.
        var isWhole: Bool
        /// Whether the entries may differ from those of the last run.
        var isNews = true
    }

    private struct State: Sendable {
        var list = RememberedRows()
        var reader: any EntryReading<Record, Entry>
        /// The rows that decode, one for each entry.
        var rows: [Row] = []
        var entries: [Entry] = []
        /// The position of each row, by its id; nil until a change needs it.
        var positions: [ItemKey: Int]?
    }

    private let included: IncludedQuery<Record, Entry>
    private let onDecodingFailure: DecodingFailurePolicy
    private let state: Mutex<State>

    init(_ included: IncludedQuery<Record, Entry>, _ onDecodingFailure: DecodingFailurePolicy) {
        (self.included, self.onDecodingFailure) = (included, onDecodingFailure)
        state = Mutex(State(reader: included.reader))
    }

    /// Reads the entries of the reader's state: all entries, or only those that have changed since the last run.
    func read(_ reader: SyncReader) throws -> Value {
        try state.withLock { state in
            do {
                return try read(reader, &state)
            } catch {
                // Some of the changes may already be applied.
                state = State(reader: included.reader)
                throw error
            }
        }
    }

    private func read(_ reader: SyncReader, _ state: inout State) throws -> Value {
        let table = try reader.table(Record.self)
        let query = ObservedQuery(included.query, table.coder, reader.engine)
        try query.storeQuery.checkWindow()
        let dependsOnMore = included.relatedQueries.contains {
            $0.dependsOnMore || $0.select != nil
        }
        if dependsOnMore { state.list.forget() }
        let source = try reader.reading { store in
            try state.list.read(query, table.coder, of: store)
        }
        if case .changes(let change) = source {
            let reading = RelatedReading(reader, onDecodingFailure, .changes)
            if let outdated = try state.reader.forget(change, reading) {
                let isSame = change.tables[table.coder.table.name] == nil
                if isSame, outdated.isEmpty {
                    return Value(entries: state.entries, isWhole: false, isNews: false)
                }
                if isSame {
                    try update(outdated, table, reading, &state)
                } else {
                    try merge(outdated, table, reading, &state)
                }
                return Value(entries: state.entries, isWhole: false)
            }
            state.reader = included.reader
        } else {
            state.reader = included.reader
        }
        let reading = RelatedReading(reader, onDecodingFailure, .all)
        (state.rows, state.entries) = try state.reader.entries(reading, table, state.list.rows)
        state.positions = nil
        return Value(entries: state.entries, isWhole: true)
    }

    /// Reads the outdated entries of rows that have not changed.
    private func update(
        _ outdated: OutdatedRows,
        _ table: ReaderTable<Record>,
        _ reading: RelatedReading,
        _ state: inout State
    ) throws {
        let positions = state.positions ?? Self.positions(of: state.rows)
        state.positions = positions
        var indexes = Set(outdated.ids.compactMap { positions[$0] })
        outdated.forEach(in: state.rows) { indexes.insert($0) }
        let rows = indexes.map { state.rows[$0] }
        let (fitting, entries) = try state.reader.entries(reading, table, rows)
        for (row, entry) in zip(fitting, entries) {
            guard let position = positions[ItemKey(row.id)] else { continue }
            state.entries[position] = entry
        }
    }

    /// Reads the entries of rows that are new or have changed, and outdated entries.
    private func merge(
        _ outdated: OutdatedRows,
        _ table: ReaderTable<Record>,
        _ reading: RelatedReading,
        _ state: inout State
    ) throws {
        let rows = state.list.rows
        var outdatedIndexes: Set<Int> = []
        outdated.forEach(in: rows) { outdatedIndexes.insert($0) }
        let positions = state.positions ?? Self.positions(of: state.rows)
        var kept: [ItemKey: Entry] = [:]
        var changed: [Row] = []
        for (index, row) in rows.enumerated() {
            let key = ItemKey(row.id)
            if !outdated.ids.contains(key), !outdatedIndexes.contains(index),
                let position = positions[key], state.rows[position] == row
            {
                kept[key] = state.entries[position]
            } else {
                changed.append(row)
            }
        }
        let (fitting, entries) = try state.reader.entries(reading, table, changed)
        for (row, entry) in zip(fitting, entries) { kept[ItemKey(row.id)] = entry }
        (state.rows, state.entries, state.positions) = ([], [], nil)
        for row in rows {
            guard let entry = kept[ItemKey(row.id)] else { continue }
            state.rows.append(row)
            state.entries.append(entry)
        }
    }

    private static func positions(of rows: [Row]) -> [ItemKey: Int] {
        var positions: [ItemKey: Int] = [:]
        for (position, row) in rows.enumerated() { positions[ItemKey(row.id)] = position }
        return positions
    }
}

/// An observed query of related records.
struct ObservedRelated<Record: SyncRecord, Entry: Sendable>: Observed {
    private let engine: SyncEngine
    /// The tables whose rows are part of the result or of its conditions.
    private let tables: Set<String>
    private let memory: RelatedMemory<Record, Entry>
    /// Returns whether two results are equal; nil if they cannot be compared.
    private let isSame: (@Sendable ([Entry], [Entry]) -> Bool)?
    private var last: [Entry]?
    private(set) var readsChangesOnly = false

    init(
        _ engine: SyncEngine,
        _ included: IncludedQuery<Record, Entry>,
        _ onDecodingFailure: DecodingFailurePolicy,
        isSame: (@Sendable ([Entry], [Entry]) -> Bool)?
    ) throws {
        self.engine = engine
        let queries = [included.query] + included.relatedQueries
        let conditions = queries.flatMap { $0.filter?.expression.relatedTables ?? [] }
        let names = [Record.tableName] + included.relatedTables + conditions
        tables = Set(try names.map { try engine.schema($0).name })
        memory = RelatedMemory(included, onDecodingFailure)
        self.isSame = isSame
    }

    mutating func run() async throws -> [Entry]? {
        let value = try await ReadRunner(engine: engine).run { [memory] in try memory.read($0) }
            .result
        readsChangesOnly = !value.isWhole
        if last != nil, !value.isNews { return nil }
        if let last, let isSame, isSame(last, value.entries) { return nil }
        last = value.entries
        return value.entries
    }

    func isReached(by change: StoreChange) -> Bool { change.changes(anyOf: tables) }
}
