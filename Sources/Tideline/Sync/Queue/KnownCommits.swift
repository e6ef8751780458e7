// KnownCommits: the latest commit of each table that the device knows from pages and from responses
// to pushes.
//
// An insert stores this commit. A tombstone that was created later cannot belong to a row that the
// app knew, so it results from this insert: a copy of the store, or an attempt whose response was
// lost, sent the insert.

import TidelineCore

extension QueueReader {
    /// The latest commits that the device knows.
    var knownCommits: KnownCommits { KnownCommits(reader: self) }
}

extension QueueTransaction {
    /// The writer of the latest commits that the device knows.
    var knownCommits: KnownCommitChanges { KnownCommitChanges(queue: self) }
}

/// A reader of the latest commits that the device knows.
struct KnownCommits {
    let reader: QueueReader

    /// Returns the latest commit of a table that the device knows, in milliseconds since 1970; 0
    /// for none.
    func latest(of table: String) throws -> Int64 {
        try reader.config(table, "", PullCursor.knownUntilType).flatMap { Int64($0) } ?? 0
    }
}

/// A writer of the latest commits that the device knows.
struct KnownCommitChanges {
    let queue: QueueTransaction

    /// Stores the time of a commit on the server, if it is the latest.
    func note(_ commit: Timestamp?, of table: String) throws {
        guard let commit, commit.milliseconds > (try queue.reader.knownCommits.latest(of: table))
        else { return }
        _ = try queue.setConfig(String(commit.milliseconds), table, "", PullCursor.knownUntilType)
    }

    /// Stores the latest commits in the responses to a push.
    func note(_ decidedOperations: [DecidedOperation]) throws {
        var latest: [String: Timestamp] = [:]
        for decided in decidedOperations {
            guard case .date(let date) = decided.answer.item?[SystemColumn.updatedAt] else {
                continue
            }
            let (table, commit) = (decided.operation.table, Timestamp(date))
            if latest[table].map({ $0 < commit }) ?? true { latest[table] = commit }
        }
        for (table, commit) in latest { try note(commit, of: table) }
    }
}
