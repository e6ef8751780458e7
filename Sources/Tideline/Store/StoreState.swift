// StoreState: identifies a committed state of a store, so that an observation knows what changed since it last read.

/// A committed state of a store.
///
/// Two equal values denote the same rows. ``LocalStoreReader/state`` returns the state that a reader sees, and
/// ``LocalStoreReader/changes(since:)`` the rows that differ from those of another state.
public struct StoreState: Hashable, Sendable {
    private let number: UInt64
    private let checksum: UInt64

    /// Creates a state from two numbers of the store's choice.
    ///
    /// A store must use the same numbers only for the same rows. If it counts its transactions, `number` is enough.
    public init(number: UInt64, checksum: UInt64 = 0) {
        (self.number, self.checksum) = (number, checksum)
    }
}
