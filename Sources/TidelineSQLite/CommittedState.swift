// CommittedState: identifies the last commit to a file by any process.

#if SQLCipher
import CSQLCipher
#else
import CSQLite
#endif

/// The last commit to a file in WAL mode, as recorded in the index of its write-ahead log.
///
/// Two equal values denote the same state if the file stayed open in between. A checkpoint does not
/// change the value.
package struct CommittedState: Hashable, Sendable {
    /// The number of the commit, which each commit of any process increases by one; the number
    /// wraps around to 0.
    package let number: UInt32
    /// The checksum of all pages in the log up to this commit.
    package let checksum: UInt64

    /// Returns whether this state directly follows another state, with exactly one commit in
    /// between.
    package func follows(_ other: CommittedState) -> Bool { number == other.number &+ 1 }
}

extension CommittedState {
    /// Reads the last commit to a connection's file; nil if it is not known, because the file is
    /// not in WAL mode or a commit is still in progress.
    ///
    /// If the value is the same before and after a snapshot begins, the snapshot shows the state
    /// after this commit. Inside a transaction that writes, the value does not change.
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
