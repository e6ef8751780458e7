// RecordEdit: the change that an app's closure makes to a record, as a change of its row; and the records
// that have to be remembered when the app reads them.

import TidelineCore

/// A stored row with the changes that a closure made to its record.
struct RecordEdit {
    let row: Row

    /// - Throws: The errors of the closure; ``SyncError`` with code `rowDoesNotFit`, or `invalidID` if
    ///   the id changed.
    init<Record>(
        of stored: Row,
        _ coder: RecordCoder<Record>,
        _ change: (inout Record) throws -> Void
    ) throws {
        let read = try coder.decode(stored)
        try self.init(of: stored, read, before: try coder.encode(read), coder, change)
    }

    /// `read` is the record of the stored row, and `before` is that record encoded.
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
    /// Returns the records that have no version or time, each encoded and with the state of its row.
    ///
    /// Later updates of these records are compared with them.
    ///
    /// A record of a type with a version has none before the first push, and in a selection without that column.
    /// Only such records are encoded, so that one row that was not pushed yet does not slow down a long list.
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
            // Some rows were skipped.
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

/// The column that identifies the state of rows.
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
