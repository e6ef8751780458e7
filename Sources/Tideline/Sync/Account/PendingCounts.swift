// PendingCounts: the number of queued operations for each kind of account.

import TidelineCore

/// The numbers of queued operations, grouped by the account that they belong to.
public struct PendingCounts: Sendable, Hashable {
    /// The operations of the account that is signed in.
    ///
    /// If no account is signed in, or if the app has no accounts, these are the operations that
    /// belong to no account.
    public var own: Int
    /// The operations that were made while no account was signed in and that wait for
    /// ``SyncContext/adopt(anonymousWork:)``.
    ///
    /// The number is 0 while no account is signed in.
    public var anonymous: Int
    /// The operations of accounts that are not signed in, which are sent when their account signs
    /// in again.
    public var otherAccounts: Int

    /// The number of all operations.
    public var total: Int { own + anonymous + otherAccounts }

    /// Creates counts, for an app's tests.
    public init(own: Int = 0, anonymous: Int = 0, otherAccounts: Int = 0) {
        (self.own, self.anonymous, self.otherAccounts) = (own, anonymous, otherAccounts)
    }
}

extension PendingCounts {
    /// Reads the numbers of operations, by account.
    init(_ reader: QueueReader) throws {
        let total = try reader.count()
        guard total > 0 else {
            self.init()
            return
        }
        func count(_ account: String?) throws -> Int {
            let value = account.map(Value.string) ?? .null
            return try reader.store.count(.equal("account", value), in: SystemTables.operations)
        }
        let own = try count(reader.account.id)
        let anonymous = reader.account.id == nil ? 0 : try count(nil)
        self.init(own: own, anonymous: anonymous, otherAccounts: total - own - anonymous)
    }
}
