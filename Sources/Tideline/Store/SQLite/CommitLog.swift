// CommitLog: the rows that a store's most recent transactions changed, so that an observation reads
// only those rows.

import Synchronization

/// The changes of a store's most recent transactions, with the states before and after each
/// transaction.
final class CommitLog: Sendable {
    private struct Commit {
        var before: StoreState
        var after: StoreState
        var change: StoreChange
        var rows: Int
    }

    private struct State {
        var commits: [Commit] = []
        var rows = 0
    }

    private let state = Mutex(State())

    /// The maximum number of transactions in the log.
    ///
    /// An observation whose last state is older must read all of its rows again.
    private static let commitsMax = 512
    /// The maximum number of rows in all transactions, which bounds the memory.
    private static let rowsMax = 4096

    /// Adds a transaction; transactions must be added in commit order.
    func append(from before: StoreState, to after: StoreState, _ change: StoreChange) {
        let rows = change.rowsListed
        state.withLock { state in
            state.commits.append(Commit(before: before, after: after, change: change, rows: rows))
            state.rows += rows
            guard state.commits.count > Self.commitsMax || state.rows > Self.rowsMax else { return }
            // Removes half of the transactions at once, so that this rarely happens.
            let count = (state.commits.count + 1) / 2
            for commit in state.commits[..<count] { state.rows -= commit.rows }
            state.commits.removeFirst(count)
        }
    }

    /// Removes all transactions.
    func clear() { state.withLock { $0 = State() } }

    /// Returns the changes between two states; nil if they are not known.
    ///
    /// They are known if consecutive transactions of this store lead from the earlier state to the
    /// later one, without a transaction of another process in between.
    func changes(from before: StoreState, to after: StoreState) -> StoreChange? {
        if before == after { return StoreChange([:]) }
        return state.withLock { state in
            guard let last = state.commits.lastIndex(where: { $0.after == after }) else {
                return nil
            }
            var change = state.commits[last].change
            var index = last
            while state.commits[index].before != before {
                guard index > 0, state.commits[index - 1].after == state.commits[index].before
                else {
                    return nil
                }
                index -= 1
                change.join(state.commits[index].change)
            }
            return change
        }
    }
}
