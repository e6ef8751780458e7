// BatchJob: a batch that waits for the writer, with what this backend derived from its tables.

import TidelineSQLite
import TidelineServerCore

struct BatchJob: Sendable {
    struct Write: Sendable {
        let operation: WriteOperation
        let table: SQLiteTable
        let repeatKey: RepeatKey?
        let isRepeatOnly: Bool
    }

    let batch: WriteBatch
    /// The writes of the batch's groups.
    let groups: [[Write]]
    let answer: CheckedContinuation<[GroupOutcome], any Error>
    /// Set when its caller has left; then it is not begun.
    let stop: QueryStop

    func forEachTable(_ body: (SQLiteTable) -> Void) {
        for group in groups { for write in group { body(write.table) } }
    }
}
