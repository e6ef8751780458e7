// RowAccounts: the accounts of rows that have no operations.
//
// A row belongs to the account that pulled it, because the server may hide it from the other accounts of the device.

import TidelineCore

/// The accounts of the rows of a table, as far as the device knows them.
struct RowAccounts {
    /// The account that is signed in.
    private var own: String?
    /// The bits of each account's queries.
    private var queries: [(account: String, bits: Int64)] = []
    /// The only account that pushed to the table or pulled it; nil if there are several, or none.
    private var sender: String?
    /// The account that is signed in, or else the only account that the device knows.
    private var other: String?

    init(_ reader: QueueReader, _ table: String) throws {
        // Without authentication, only operations without an account are sent.
        guard reader.account != .unused else { return }
        let known = try reader.knownAccounts()
        own = reader.account.id
        queries = try known.map { account in
            let bits = try reader.bits(of: .signedIn(account), table, isOwn: true)
            return (account: account, bits: bits)
        }
        let sender = try reader.config(table, "", PullCursor.senderType) ?? ""
        self.sender = sender.isEmpty ? nil : sender
        other = own ?? (known.count == 1 ? known.first : nil)
    }

    /// Returns the account that sends changes of a row; nil if it is not known.
    ///
    /// If queries of several accounts hold the row, the one that is signed in is preferred. A row that no
    /// query with an id holds belongs to the only account that used the table, if there is one and the
    /// server has the row; otherwise to the account that is signed in, or, if none is, to the only account
    /// that the device knows.
    func account(of row: Row, mask: Int64) -> String? {
        let holders = queries.filter { $0.bits & mask != 0 }.map(\.account)
        if let own, holders.contains(where: { $0.hasSameBytes(as: own) }) { return own }
        return holders.first ?? (row.isFromServer ? sender : nil) ?? other
    }
}

extension QueueReader {
    /// Returns the accounts that have pulled tables, pushed to them or queued operations on this device, sorted.
    fileprivate func knownAccounts() throws -> [String] {
        var known: Set<ItemKey> = []
        for row in try store.rows(TableQuery(), in: SystemTables.config) {
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
        for row in try store.rows(query, in: SystemTables.operations) {
            if let account = row["account"]?.text { known.insert(ItemKey(account)) }
        }
        return known.map(\.text).sorted()
    }
}
