// RowSenders: the account whose rows this device sent to a table before it pulled the table, and the epoch of the first
// responses.
//
// If a restored server does not return such a row, the row is lost only if it belongs to this account.

import TidelineCore

extension QueueReader {
    /// Returns whether all rows that this device sent to a table before the first pull belong to this account.
    func isOnlySender(_ table: String, _ account: String?) throws -> Bool {
        guard let account, let sender = try config(table, "", PullCursor.senderType) else {
            return false
        }
        return ItemKey(sender) == ItemKey(account)
    }

    fileprivate func hasServerRows(_ table: String) throws -> Bool {
        var query = TableQuery(filter: .greater(SystemColumn.version, .string("")))
        query.limit = 1
        return try !store.rows(query, in: table).isEmpty
    }
}

extension QueueTransaction {
    /// The value for rows of several accounts, or of none; it is empty, because no account has an empty id.
    private static let severalSenders = ""

    /// Stores which accounts sent rows to a table before its first pull, and the epoch of the first responses.
    ///
    /// It is called before the outcomes of the push are stored.
    func noteSenders(of decidedOperations: [DecidedOperation], endpoint: String?) throws {
        var senders: [String: Set<ItemKey>] = [:]
        for operation in decidedOperations.map(\.operation) {
            let sender = operation.account ?? Self.severalSenders
            senders[operation.table, default: []].insert(ItemKey(sender))
        }
        for (table, found) in senders where try !reader.wasPulled(table) {
            let known = try reader.config(table, "", PullCursor.senderType)
            // Rows that an earlier version sent may belong to any account.
            let isUnknown = try known == nil && reader.hasServerRows(table)
            let all = found.union(known.map { [ItemKey($0)] } ?? [])
            let sender = all.count == 1 && !isUnknown ? decidedOperations.sender(table) : nil
            _ = try set(sender ?? Self.severalSenders, table, "", PullCursor.senderType)
            // If the first responses had no epoch, a later one is stored. It cannot show a restore before it.
            if let endpoint, let epoch = decidedOperations.onlyEpoch(table),
                try reader.config(table, endpoint, PullCursor.firstSentEpochType) == nil
            {
                _ = try set(epoch, table, endpoint, PullCursor.firstSentEpochType)
            }
        }
    }
}

extension [DecidedOperation] {
    fileprivate func sender(_ table: String) -> String? {
        first { $0.operation.table == table }?.operation.account
    }

    /// The epoch of all responses about a table; nil if they differ or have none.
    fileprivate func onlyEpoch(_ table: String) -> String? {
        let epochs = Set(lazy.filter { $0.operation.table == table }.map(\.answer.epoch))
        return epochs.count == 1 ? epochs.first ?? nil : nil
    }
}
