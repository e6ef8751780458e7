// PendingCounts: how many operations wait, told apart by account.

import TidelineCore

/// How many operations wait in the queue, by the account that they belong to.
public struct PendingCounts: Sendable, Hashable {
    /// Those of the account that is signed in.
    ///
    /// Without a signed-in account, and in an app without accounts: those that belong to no account.
    public var own: Int
    /// Those that were made without a signed-in account, and that wait for
    /// ``SyncContext/adopt(anonymousWork:)``; 0 while no account is signed in.
    public var anonymous: Int
    /// Those of accounts that are not signed in; each is sent when its account signs in again.
    public var otherAccounts: Int

    /// All of them.
    public var total: Int { own + anonymous + otherAccounts }

    /// Counts, for a test of an app.
    public init(own: Int = 0, anonymous: Int = 0, otherAccounts: Int = 0) {
        (self.own, self.anonymous, self.otherAccounts) = (own, anonymous, otherAccounts)
    }
}

extension QueueReader {
    /// How many operations wait, by account.
    func pendingCounts() throws -> PendingCounts {
        let total = try store.count(nil, in: SystemTables.operations)
        guard total > 0 else { return PendingCounts() }
        func count(_ account: String?) throws -> Int {
            let value = account.map(Value.string) ?? .null
            return try store.count(.equal("account", value), in: SystemTables.operations)
        }
        let own = try count(account.id)
        let anonymous = account.id == nil ? 0 : try count(nil)
        return PendingCounts(
            own: own,
            anonymous: anonymous,
            otherAccounts: total - own - anonymous
        )
    }
}
