// StoreState: identifies a committed state of a store, so that an observation can find out what
// changed since its last read.

/// A committed state of a store.
///
/// Two equal values denote the same rows. ``LocalStoreReader/state`` returns the state that a
/// reader sees, and ``LocalStoreReader/changes(since:)`` returns the rows that differ from another
/// state.
public struct StoreState: Hashable, Sendable {
    private let number: UInt64
    private let checksum: UInt64

    /// Creates a state from two numbers that the store chooses.
    ///
    /// A store may use the same numbers only for the same rows. If the store counts its
    /// transactions, `number` is enough.
    public init(number: UInt64, checksum: UInt64 = 0) {
        (self.number, self.checksum) = (number, checksum)
    }
}
