// RowAccounts: finds the accounts of rows that have no operations.
//
// A row belongs to the account that pulled it, because the server may hide it from other accounts
// on the device.

import TidelineCore

/// The accounts of the rows of a table, as far as the device knows them.
struct RowAccounts {
    /// The account that is signed in.
    private var own: String?
    /// The bits of each account's queries.
    private var queries: [(account: String, bits: Int64)] = []
    /// The only account that pushed to the table or pulled it; nil if there are several, or none.
    private var sender: String?
    /// The account that is signed in; if there is none, the only account that the device knows.
    private var other: String?

    init(_ reader: QueueReader, _ table: String) throws {
        // Without authentication, only operations without an account are sent.
        guard reader.account != .unused else { return }
        let known = try reader.tableAccounts.known()
        own = reader.account.id
        queries = try known.map { account in
            let bits = try reader.membership.bits(of: .signedIn(account), table, isOwn: true)
            return (account: account, bits: bits)
        }
        let sender = try reader.config(table, "", PullCursor.senderType) ?? ""
        self.sender = sender.isEmpty ? nil : sender
        other = own ?? (known.count == 1 ? known.first : nil)
    }

    /// Returns the account that sends changes of a row; nil if it is not known.
    ///
    /// If pull queries of several accounts hold the row, the account that is signed in is
    /// preferred. If no query with an id holds it, a row that the server has belongs to the only
    /// account that used the table. Otherwise, the row belongs to the account that is signed in, or
    /// to the only account that the device knows.
    func account(of row: Row, mask: Int64) -> String? {
        let holders = queries.filter { $0.bits & mask != 0 }.map(\.account)
        if let own, holders.contains(where: { $0.hasSameBytes(as: own) }) { return own }
        return holders.first ?? (row.isFromServer ? sender : nil) ?? other
    }
}
