// RecordEdit: what a closure of the app changes of a record, as a change of its row; and which records
// have to be remembered when they are handed out.

import TidelineCore

/// A stored row with what a closure changed of its record.
struct RecordEdit {
    let row: Row

    /// - Throws: What the closure throws; ``SyncError`` with code `rowDoesNotFit`, or `invalidID` where
    ///   the id changed.
    init<Record>(
        of stored: Row,
        _ coder: RecordCoder<Record>,
        _ change: (inout Record) throws -> Void
    ) throws {
        let read = try coder.decode(stored)
        try self.init(of: stored, read, before: try coder.encode(read), coder, change)
    }

    /// `read` is the stored row as a record, and `before` that as it is encoded.
    init<Record>(
        of stored: Row,
        _ read: Record,
        before: Row,
        _ coder: RecordCoder<Record>,
        _ change: (inout Record) throws -> Void
    ) throws {
        var record = read
        try change(&record)
        let after = try coder.encode(record)
        try RowCheck.checkIsLive(after, table: coder.table.name)
        guard ItemKey(after.id) == ItemKey(stored.id) else {
            throw SyncError(.invalidID, "An update cannot change the id of a record.")
        }
        row = RowMerge.applying(from: before, to: after, onto: stored, ofModel: true)
    }
}

extension RecordCoder {
    /// What goes out without a version or a time, which an update is measured against, each with the
    /// state of its row.
    ///
    /// A type with a version has none before the first push, and in a selection of other fields. Only
    /// such records are encoded: one row that was not pushed yet does not make a long list slow.
    func silent(_ records: [Record], among rows: [Row]) -> [(row: Row, state: RowState)] {
        var state = StateMember(identity)
        let silent = rows.indices.filter { !state.isTold(by: rows[$0]) }
        if silent.isEmpty { return [] }
        var handedOut: [(row: Row, state: RowState)] = []
        func add(_ record: Record, _ stored: Row) {
            guard let row = try? encode(record), !state.isTold(by: row) else { return }
            handedOut.append((row, RowState(stored)))
        }
        if records.count == rows.count {
            for index in silent { add(records[index], rows[index]) }
        } else {
            // Some rows were left out.
            let stored = Dictionary(
                silent.map { (ItemKey(rows[$0].id), rows[$0]) },
                uniquingKeysWith: { $1 }
            )
            for record in records {
                if let row = stored[ItemKey(id(record))] { add(record, row) }
            }
        }
        return handedOut
    }
}

/// The column in which rows tell their state.
private struct StateMember {
    private var member: RowMember?

    init(_ identity: RecordIdentity) {
        member =
            switch identity {
            case .version: RowMember(SystemColumn.version)
            case .updatedAt: RowMember(SystemColumn.updatedAt)
            case .nothing: nil
            }
    }

    mutating func isTold(by row: Row) -> Bool {
        guard let value = member?.value(in: row) else { return false }
        return !value.isNull
    }
}
