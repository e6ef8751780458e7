// FileState: identifies the last commit to a store's file, by this store or by another process.

import TidelineSQLite

/// A committed state of a store's file.
struct FileState: Equatable {
    private enum Commit: Equatable {
        /// The last commit of any process.
        case file(CommittedState)
        /// The number of changed rows in a database that only one connection uses.
        case connection(Int)
    }

    /// The number of times that the writing connection was opened, because another process may
    /// replace the log while it is closed.
    private let opens: Int
    private let commit: Commit

    /// Reads the last state of a connection's database; nil if it is not known.
    init?(of database: Database, opens: Int, isPrivate: Bool) {
        self.opens = opens
        if isPrivate {
            commit = .connection(database.totalChanges)
        } else {
            guard let last = CommittedState(of: database) else { return nil }
            commit = .file(last)
        }
    }

    /// The state in the form that observations use.
    var state: StoreState {
        switch commit {
        case .file(let commit):
            StoreState(
                number: (UInt64(truncatingIfNeeded: opens) << 32) | UInt64(commit.number),
                checksum: commit.checksum
            )
        case .connection(let changes): StoreState(number: UInt64(truncatingIfNeeded: changes))
        }
    }

    /// Returns whether this state is exactly one commit after another state.
    func follows(_ other: FileState) -> Bool {
        guard opens == other.opens else { return false }
        switch (commit, other.commit) {
        case (.file(let commit), .file(let other)): return commit.follows(other)
        case (.connection(let changes), .connection(let other)): return changes != other
        case (.file, .connection), (.connection, .file): return false
        }
    }
}

/// The state that a reader sees, with the log of the changes that led to it.
struct StateOfReader {
    let state: StoreState
    let log: CommitLog
}

extension WriterConnection {
    /// Returns the last state of the file that a connection sees; nil if it is not known.
    func state(of database: Database) -> FileState? {
        FileState(of: database, opens: opens, isPrivate: isInMemory)
    }
}
