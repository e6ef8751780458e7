// AccountView: the account that is signed in, and the operations and queries that belong to it.
//
// Pure. An operation belongs to the account that made it; the rules are in docs/sync.md.

/// The account that is signed in.
package enum AccountView: Sendable, Hashable {
    /// The app has no authentication.
    case unused
    case signedOut
    case signedIn(String)

    /// The account that owns new operations.
    package var id: String? {
        if case .signedIn(let account) = self { account } else { nil }
    }

    /// Returns whether this account may change an operation and resolve its errors.
    package func owns(_ operation: QueuedOperation) -> Bool { isSame(operation.account) }

    /// Returns whether an operation can be sent now.
    ///
    /// If no account is signed in, no operation can be sent.
    package func maySend(_ operation: QueuedOperation) -> Bool {
        self != .signedOut && isSame(operation.account)
    }

    private func isSame(_ account: String?) -> Bool {
        account.map(ItemKey.init) == id.map(ItemKey.init)
    }

    /// Returns the key under which this account's cursor of a query is stored; each account has its
    /// own.
    ///
    /// Query ids never contain `@`.
    package func key(_ queryID: String) -> String { id.map { queryID + "@" + $0 } ?? queryID }

    /// Returns whether a key belongs to this account.
    package func owns(key: String) -> Bool { isSame(Self.account(ofKey: key)) }

    /// Returns the account that a key belongs to; nil if no account was signed in.
    static func account(ofKey key: String) -> String? {
        key.firstIndex(of: "@").map { String(key[key.index(after: $0)...]) }
    }

    /// Returns the query id that a key contains.
    static func queryID(ofKey key: String) -> String { String(key.prefix { $0 != "@" }) }
}
