// CommittedState: identifies the last commit of a file, by any process.

#if SQLCipher
import CSQLCipher
#else
import CSQLite
#endif

/// The last commit of a file in WAL mode, as the index of its write-ahead log describes it.
///
/// Two equal values denote the same state if the file was open all the time in between. A checkpoint does not change
/// the value.
package struct CommittedState: Hashable, Sendable {
    /// The number of the commit, which each commit of any process increases by one; it wraps around to 0.
    package let number: UInt32
    /// The checksum of all pages in the log up to this commit.
    package let checksum: UInt64

    /// Whether this state is the one after the next commit.
    package func follows(_ other: CommittedState) -> Bool { number == other.number &+ 1 }
}

extension CommittedState {
    /// Finds the last commit of a connection's file; nil if it is not known, because the file is not in WAL mode or a
    /// commit is just being finished.
    ///
    /// If it is the same before and after a snapshot begins, the snapshot shows the state after this commit. Within a
    /// transaction that writes, it does not change.
    package init?(of database: Database) {
        var header = [UInt8](repeating: 0, count: 48)
        guard tl_read_log_header(database.handle, &header) != 0 else { return nil }
        func integer(at offset: Int) -> UInt32 {
            header.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset, as: UInt32.self) }
        }
        number = integer(at: 8)
        checksum = (UInt64(integer(at: 24)) << 32) | UInt64(integer(at: 28))
    }
}
