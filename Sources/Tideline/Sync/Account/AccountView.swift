// AccountView: who is signed in, and which operations and queries are theirs.
//
// Pure; the rules are in docs/SYNC.md. An operation belongs to the account that made it.

/// Who is signed in.
package enum AccountView: Sendable, Hashable {
    /// The app has no authentication.
    case unused
    case signedOut
    case signedIn(String)

    /// The account that new operations belong to.
    package var id: String? {
        if case .signedIn(let account) = self { account } else { nil }
    }

    /// Whether an operation is this account's to change, and its errors to settle.
    package func owns(_ operation: QueuedOperation) -> Bool { isSame(operation.account) }

    /// Whether an operation goes out now: with nobody signed in none does.
    package func maySend(_ operation: QueuedOperation) -> Bool {
        self != .signedOut && isSame(operation.account)
    }

    private func isSame(_ account: String?) -> Bool {
        account.map(ItemKey.init) == id.map(ItemKey.init)
    }

    /// What the position of a query is kept under: each account has its own.
    ///
    /// Query ids have no `@`.
    package func key(_ queryID: String) -> String { id.map { queryID + "@" + $0 } ?? queryID }

    /// Whether what is kept under a key is this account's.
    package func owns(key: String) -> Bool { isSame(Self.account(ofKey: key)) }

    private static func account(ofKey key: String) -> String? {
        key.firstIndex(of: "@").map { String(key[key.index(after: $0)...]) }
    }
}
