// RecordEdit: the change that an app's closure makes to a record, as a change of its row.

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
