// KnownCommits: the latest commit of each table that the device knows of, from pages and from responses to
// pushes.
//
// An insert keeps it. A tombstone that was made after it cannot be of a row that the app knew: it is of
// this very insert, which another copy of the store has sent.

import TidelineCore

extension QueueReader {
    /// The latest commit of a table that the device knows, in milliseconds since 1970; 0 for none.
    func knownUntil(_ table: String) throws -> Int64 {
        try config(table, "", PullCursor.knownUntilType).flatMap { Int64($0) } ?? 0
    }
}

extension QueueTransaction {
    /// Stores a commit of the server, if it is the latest.
    func note(commit: Timestamp?, of table: String) throws {
        guard let commit, commit.milliseconds > (try reader.knownUntil(table)) else { return }
        _ = try set(String(commit.milliseconds), table, "", PullCursor.knownUntilType)
    }

    /// Stores the latest commits in the responses to a push.
    func noteCommits(of settlings: [PushSettling]) throws {
        var latest: [String: Timestamp] = [:]
        for settling in settlings {
            guard case .date(let date) = settling.answer.item?[SystemColumn.updatedAt] else {
                continue
            }
            let (table, commit) = (settling.operation.table, Timestamp(date))
            if latest[table].map({ $0 < commit }) ?? true { latest[table] = commit }
        }
        for (table, commit) in latest { try note(commit: commit, of: table) }
    }
}

extension QueueReader {
    /// Whether all rows that this device sent to a table before it pulled the table are of this account.
    func isOnlySender(_ table: String, _ account: String?) throws -> Bool {
        guard let account, let sender = try config(table, "", PullCursor.senderType) else {
            return false
        }
        return ItemKey(sender) == ItemKey(account)
    }
}

extension QueueTransaction {
    /// No account has an empty name: rows of several accounts, or of none.
    private static let severalSenders = ""

    /// Remembers whose rows a table has that was not pulled yet, before answers to a push are stored.
    ///
    /// If a restored server does not show such a row, it is lost only if it is this account's.
    func noteSenders(of settlings: [PushSettling]) throws {
        var senders: [String: Set<ItemKey>] = [:]
        for operation in settlings.map(\.operation) {
            let sender = operation.account ?? Self.severalSenders
            senders[operation.table, default: []].insert(ItemKey(sender))
        }
        for (table, found) in senders where try !reader.wasPulled(table) {
            let known = try reader.config(table, "", PullCursor.senderType)
            // Rows that an earlier version has sent may be of any account.
            let isUnknown = try known == nil && reader.hasServerRows(table)
            let all = found.union(known.map { [ItemKey($0)] } ?? [])
            let sender = all.count == 1 && !isUnknown ? settlings.sender(table) : nil
            _ = try set(sender ?? Self.severalSenders, table, "", PullCursor.senderType)
        }
    }
}

extension [PushSettling] {
    fileprivate func sender(_ table: String) -> String? {
        first { $0.operation.table == table }?.operation.account
    }
}

extension QueueReader {
    fileprivate func hasServerRows(_ table: String) throws -> Bool {
        var query = TableQuery(filter: .greater(SystemColumn.version, .string("")))
        query.limit = 1
        return try !store.rows(query, in: table).isEmpty
    }
}
