// TableAccounts: the accounts that pushed or pulled the rows of a table on this device, and the
// epoch of the first responses.
//
// If a restored server does not return a row, the row counts as lost only if it belongs to the
// account that made the request. The server hides the rows of other accounts.

import TidelineCore

extension QueueReader {
    /// The accounts that used tables.
    var tableAccounts: TableAccounts { TableAccounts(reader: self) }
}

extension QueueTransaction {
    /// The writer of the accounts that used tables.
    var tableAccounts: TableAccountChanges { TableAccountChanges(queue: self) }
}

/// A reader of the accounts that used tables on this device.
struct TableAccounts {
    let reader: QueueReader

    /// Returns whether a table may have rows that the server hides from the account that is signed
    /// in.
    ///
    /// This is the case if another account pushed to the table or pulled it on this device.
    func isShared(_ table: String) throws -> Bool {
        guard reader.account != .unused else { return false }
        let known = try reader.config(table, "", PullCursor.senderType)
        return known.map(ItemKey.init) != reader.account.id.map(ItemKey.init)
    }

    fileprivate func hasServerRows(_ table: String) throws -> Bool {
        var query = TableQuery(filter: .greater(SystemColumn.version, .string("")))
        query.limit = 1
        return try !reader.store.rows(query, in: table).isEmpty
    }

    /// Returns whether a table already had rows of the server when the first account was stored, as
    /// in a store of the original SDK.
    func hasUnknownSenders(_ table: String) throws -> Bool {
        try reader.config(table, "", PullCursor.unknownSenderType) != nil
    }

    /// Returns whether a table has pull queries of other accounts.
    ///
    /// An earlier version of the client did not store the accounts that used a table after its
    /// first pull, but it did store each account's queries.
    fileprivate func hasQueriesOfOthers(_ table: String, than account: String) throws -> Bool {
        let view = AccountView.signedIn(account)
        let isNumber = Filter.equal("keyType", .integer(Int64(QueryHold.numberType)))
        let query = TableQuery(filter: .equal("table", .string(table)) && isNumber)
        return try reader.store.rows(query, in: SystemTables.config).contains { row in
            guard let key = row["key"]?.text else { return false }
            return !view.owns(key: key) && !AccountView.signedOut.owns(key: key)
        }
    }

    /// Returns the accounts that have pulled, pushed or queued operations on this device, sorted.
    func known() throws -> [String] {
        var known: Set<ItemKey> = []
        for row in try reader.store.rows(TableQuery(), in: SystemTables.config) {
            guard case .integer(let type) = row["keyType"] else { continue }
            var account: String?
            switch Int(exactly: type) {
            case QueryHold.numberType:
                account = row["key"]?.text.flatMap(AccountView.account(ofKey:))
            case PullCursor.senderType, PullCursor.readerType: account = row["value"]?.text
            default: continue
            }
            if let account, !account.isEmpty { known.insert(ItemKey(account)) }
        }
        var query = TableQuery()
        query.select = ["account"]
        for row in try reader.store.rows(query, in: SystemTables.operations) {
            if let account = row["account"]?.text { known.insert(ItemKey(account)) }
        }
        return known.map(\.text).sorted()
    }
}

/// A writer of the accounts that used tables on this device.
struct TableAccountChanges {
    let queue: QueueTransaction

    /// The value that stands for several accounts; it is empty, because no account has an empty id.
    private static let severalAccounts = ""

    /// Stores which accounts sent rows to a table and, before the first pull, the epoch of the
    /// first responses.
    ///
    /// Call this before the outcomes of the push are stored.
    func noteSenders(of decidedOperations: [DecidedOperation], endpoint: String?) throws {
        var senders: [String: Set<ItemKey>] = [:]
        for operation in decidedOperations.map(\.operation) {
            let sender = operation.account ?? Self.severalAccounts
            senders[operation.table, default: []].insert(ItemKey(sender))
        }
        for (table, found) in senders {
            let isFirst = try !queue.reader.epochs.wasPulled(table)
            // After the first pull, an app without accounts stores nothing.
            for sender in found where isFirst || !sender.text.isEmpty {
                try note(sender.text, of: table)
            }
            // If the first responses had no epoch, a later epoch is stored. It does not reveal an
            // earlier restore.
            if isFirst, let endpoint, let epoch = decidedOperations.onlyEpoch(table),
                try queue.reader.config(table, endpoint, PullCursor.firstSentEpochType) == nil
            {
                _ = try queue.setConfig(epoch, table, endpoint, PullCursor.firstSentEpochType)
            }
        }
    }

    /// Stores which account reads a table, before the rows of a response are stored.
    ///
    /// If another account read the table last, it may have flagged rows that only its queries held.
    /// These rows are no longer requested, because the server may hide them from this account.
    func noteReader(of table: String) throws {
        guard queue.account != .unused else { return }
        if let id = queue.account.id { try note(id, of: table) }
        let isOther = try queue.setConfig(queue.account.id ?? "", table, "", PullCursor.readerType)
        guard isOther, let former = try queue.reader.epochs.formerRows(of: table),
            former.cause != .sent,
            try queue.reader.tableAccounts.isShared(table)
        else { return }
        var query = TableQuery(filter: .equal(MembershipMask.name, .integer(MembershipMask.former)))
        query.select = [SystemColumn.id]
        let mask = MembershipMask.former | MembershipMask.withoutID
        for row in try queue.unmasked.inner.rows(query, in: table) {
            try queue.unmasked.inner.setMask(mask, of: row, in: table)
        }
    }

    /// Forgets which accounts used a table, if the table no longer has rows of the server.
    func forget(_ table: String) throws {
        guard try !queue.reader.tableAccounts.hasServerRows(table) else { return }
        let types = [
            PullCursor.senderType, PullCursor.readerType, PullCursor.unknownSenderType,
        ]
        for type in types {
            _ = try queue.setConfig(nil, table, "", type)
        }
    }

    private func note(_ account: String, of table: String) throws {
        let known = try queue.reader.config(table, "", PullCursor.senderType)
        guard known.map(ItemKey.init) != ItemKey(account) else { return }
        var isOnly = known == nil
        if isOnly, try queue.reader.epochs.wasPulled(table) {
            isOnly = try !queue.reader.tableAccounts.hasQueriesOfOthers(table, than: account)
        } else if isOnly, try queue.reader.tableAccounts.hasServerRows(table) {
            _ = try queue.setConfig("1", table, "", PullCursor.unknownSenderType)
        }
        _ = try queue.setConfig(
            isOnly ? account : Self.severalAccounts,
            table,
            "",
            PullCursor.senderType
        )
    }
}

extension [DecidedOperation] {
    /// The epoch that all responses about a table have; nil if they differ or have none.
    fileprivate func onlyEpoch(_ table: String) -> String? {
        let epochs = Set(lazy.filter { $0.operation.table == table }.map(\.answer.epoch))
        return epochs.count == 1 ? epochs.first ?? nil : nil
    }
}
