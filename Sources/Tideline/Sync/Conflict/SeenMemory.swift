// SeenMemory: what is remembered of the rows that were handed out, and what becomes of it when there
// are many (docs/SYNC.md, "Updates from a copy").
//
// Pure. Two generations of rows are known whole. Of further ones a mark is left: in which state they
// were first handed out. While a row is in that state nobody else has changed it since, and an edit
// of any copy is safe. Of a table with more rows than that nothing is known: there may be copies of
// any state.

import TidelineCore

/// What happened to rows in a transaction.
enum SeenChange: Sendable {
    /// This device changed columns of a row that was in a state, from values to others.
    case edited(RowKey, RowState, from: Row, to: Row)
    /// This device made the row anew.
    case inserted(RowKey, Row)
    case accepted(RowKey, AcceptedPush)
    /// A record of a state has set columns of the stored row.
    case set(RowKey, [String], in: RowState, stored: RowState)
    /// Edits of this device, which the records that are held may have, were taken back.
    case takenBack(RowKey)
    case purged(table: String)
}

struct SeenMemory: Sendable {
    private struct Table: Sendable {
        var marks: [Int: RowState.Mark] = [:]
        /// Whether marks were dropped.
        var hasForgotten = false
    }

    private var young: [RowKey: SeenRow] = [:]
    private var old: [RowKey: SeenRow] = [:]
    private var tables: [String: Table] = [:]
    private var markCount = 0
    private let rowsMax: Int
    private let marksMax: Int

    /// `rowsMax`: how many rows a generation has; `marksMax`: how many marks there are.
    init(rowsMax: Int, marksMax: Int) {
        self.rowsMax = rowsMax
        self.marksMax = marksMax
    }

    /// What is known of a row that is in a state now.
    func row(_ key: RowKey, now: RowState) -> SeenRow {
        if let row = young[key] ?? old[key] { return row }
        var row = SeenRow()
        guard let table = tables[key.table] else { return row }
        if let mark = table.marks[key.hashValue] {
            row.since = mark
            if mark != now.mark { row.contest(now) }
        } else if table.hasForgotten {
            row.contest(now)
        }
        return row
    }

    mutating func handOut(_ record: Row, _ state: RowState, table: String) {
        change(RowKey(table, record.id), state) { $0.handOut(record, state) }
    }

    mutating func apply(_ change: SeenChange) {
        switch change {
        case .edited(let key, let state, let before, let after):
            if row(key, now: state).isHeld {
                self.change(key, state) { $0.edit(after, from: before, state) }
            }
        case .inserted(let key, let new):
            let state = RowState(new)
            if row(key, now: state).isHeld { self.change(key, state) { $0.insert(new) } }
        case .accepted(let key, let push):
            self.change(key, push.before) { $0.accept(push) }
        case .set(let key, let columns, let state, let stored):
            self.change(key, stored) { $0.set(columns, in: state, stored: stored) }
        case .takenBack(let key):
            young[key]?.oldest = nil
            old[key]?.oldest = nil
        case .purged(let table):
            for key in young.keys where key.table == table { young[key]?.oldest = nil }
            for key in old.keys where key.table == table { old[key]?.oldest = nil }
        }
    }

    private mutating func change(
        _ key: RowKey,
        _ state: RowState,
        _ body: (inout SeenRow) -> Void
    ) {
        if young[key] == nil {
            young[key] = row(key, now: state)
            if old.removeValue(forKey: key) == nil { takeMark(key) }
        }
        body(&young[key, default: SeenRow()])
        guard young.count > rowsMax else { return }
        for (key, row) in old { leaveMark(of: row, key) }
        old = young
        young = [:]
    }

    // MARK: - Marks

    private mutating func leaveMark(of row: SeenRow, _ key: RowKey) {
        guard row.isHeld else { return }
        let mark = row.contested.isNone && row.replaced.isEmpty ? row.since ?? .none : .none
        if tables[key.table, default: Table()].marks.updateValue(mark, forKey: key.hashValue) == nil
        {
            markCount += 1
        }
        guard markCount > marksMax,
            let largest = tables.max(by: { $0.value.marks.count < $1.value.marks.count })
        else { return }
        markCount -= largest.value.marks.count
        tables[largest.key] = Table(hasForgotten: true)
    }

    private mutating func takeMark(_ key: RowKey) {
        if tables[key.table]?.marks.removeValue(forKey: key.hashValue) != nil { markCount -= 1 }
    }
}
