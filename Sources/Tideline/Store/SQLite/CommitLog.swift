// CommitLog: the rows of the last transactions of a store, so that an observation reads only what they changed.

import Synchronization

/// The changes of a store's last transactions, with the states before and after each of them.
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

    /// The maximum number of transactions that are kept.
    ///
    /// An observation whose last state is older reads all of its rows again.
    private static let commitsMax = 512
    /// The maximum number of their rows, which bounds the memory.
    private static let rowsMax = 4096

    /// Adds a transaction, in the order of the commits.
    func append(from before: StoreState, to after: StoreState, _ change: StoreChange) {
        let rows = change.rowsListed
        state.withLock { state in
            state.commits.append(Commit(before: before, after: after, change: change, rows: rows))
            state.rows += rows
            guard state.commits.count > Self.commitsMax || state.rows > Self.rowsMax else { return }
            // Half of them, so that this happens rarely.
            let count = (state.commits.count + 1) / 2
            for commit in state.commits[..<count] { state.rows -= commit.rows }
            state.commits.removeFirst(count)
        }
    }

    /// Removes all transactions.
    func clear() { state.withLock { $0 = State() } }

    /// Returns the changes between two states; nil if they are not known.
    ///
    /// They are known if transactions of this store, which followed each other, lead from the earlier state to the
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
