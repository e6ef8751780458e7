// SQLiteStore: returns unused pages of the file to the file system.
//
// New files use SQLite's incremental mode: free pages are returned in short transactions. A file
// from an earlier version is rewritten once in a single transaction (VACUUM), and uses incremental
// mode from then on. Both are as safe as any other transaction if the process is killed or other
// processes use the file.

import Synchronization
import TidelineCore
import TidelineSQLite

/// The result of ``SQLiteStore/compact(deadline:)``.
public struct CompactionResult: Sendable, Hashable {
    /// The number of bytes by which the file shrinks.
    ///
    /// The file on the disk shrinks when its write-ahead log is truncated.
    public var freedBytes: Int64
    /// Whether all free pages were returned.
    public var isComplete: Bool

    /// Creates a result, for use in an app's tests.
    public init(freedBytes: Int64 = 0, isComplete: Bool = true) {
        self.freedBytes = freedBytes
        self.isComplete = isComplete
    }
}

extension SQLiteStore {
    /// Returns the space of removed rows to the disk, and stops at the deadline.
    ///
    /// A purge calls this method if at least half of the file is free afterward. If the deadline
    /// passes first, the next call continues. Reads and changes can run at the same time. A file
    /// that an earlier version of this library created is rewritten completely the first time.
    /// Changes wait until the rewrite is done, and it needs as much free space as the rows take. If
    /// the deadline leaves too little time, nothing happens.
    ///
    /// ```swift
    /// let result = try await store.compact(deadline: .seconds(5))
    /// ```
    ///
    /// - Returns: The number of bytes that were returned, and whether no free pages are left.
    /// - Throws: ``SyncError`` with code `storeFailure`, for example if the disk is full or the
    ///   store is closed, or with code `storeUnavailable`. The file is then unchanged or shorter.
    @discardableResult
    public func compact(deadline: Duration) async throws -> CompactionResult {
        let end = QueryStart().adding(deadline.clampedForTimers)
        let before: FreeSpace
        var now: FreeSpace
        do {
            before = try await writer.run { try FreeSpace($0) }
            now = before
            if !before.isIncremental, before.freePages > 0 {
                try await rewrite(until: end)
                now = try await writer.run { try FreeSpace($0) }
            }
            while now.isIncremental, now.freePages > 0, !Task.isCancelled, !connection.isSuspended,
                QueryStart().nanoseconds < end
            {
                now = try await giveBackStep()
            }
        } catch let error as SQLiteError {
            throw failure(error)
        }
        // If the log is in use now, a later commit truncates it.
        await log?.finishCopying()
        _ = await checkpoint()
        return CompactionResult(
            freedBytes: max(0, before.bytes - now.bytes),
            isComplete: now.freePages == 0
        )
    }

    private func giveBackStep() async throws -> FreeSpace {
        try await writer.run { [log, connection] database in
            defer { log?.committed(database) }
            try connection.end.check()
            return try database.transaction(isFlushed: false) {
                try database.execute("PRAGMA incremental_vacuum(\(FreeSpace.pagesOfStep))")
                return try FreeSpace(database)
            }
        }
    }

    /// Rewrites a file from an earlier version; leaves the file unchanged if there is too little
    /// time.
    private func rewrite(until end: UInt64) async throws {
        try await writer.run { [log] database in
            defer { log?.committed(database) }
            let now = QueryStart()
            guard now.nanoseconds < end else { return }
            try database.execute("PRAGMA auto_vacuum = INCREMENTAL")
            do {
                let left = Duration.nanoseconds(Int64(clamping: end - now.nanoseconds))
                try database.limitTime(left, since: now) { try database.execute("VACUUM") }
            } catch let error as SQLiteError where error.isInterrupt {
                return
            }
        }
    }

    /// Returns the space of removed rows to the disk if at least half of the file is free.
    public func compactIfHalfFree(deadline: Duration) async {
        guard let space = try? await writer.run({ try FreeSpace($0) }), space.isHalfFree else {
            return
        }
        // VACUUM keeps the temporary copy of an encrypted file in memory.
        if isEncrypted, !space.isIncremental, space.usedBytes > FreeSpace.memoryMax { return }
        // If this fails, for example on a full disk, the file keeps the space and reuses it later.
        _ = try? await compact(deadline: deadline)
    }
}

/// The unused pages of a file.
private struct FreeSpace: Sendable {
    var freePages: Int64
    var pages: Int64
    var pageBytes: Int64
    /// Whether free pages can be returned without a rewrite of the file.
    var isIncremental: Bool

    var bytes: Int64 { pages * pageBytes }
    var usedBytes: Int64 { (pages - freePages) * pageBytes }

    init(_ database: Database) throws {
        freePages = try database.integer("PRAGMA freelist_count") ?? 0
        pages = try database.integer("PRAGMA page_count") ?? 0
        pageBytes = try database.integer("PRAGMA page_size") ?? 0
        isIncremental = try database.integer("PRAGMA auto_vacuum") == 2
    }

    var isHalfFree: Bool {
        freePages * 2 >= pages && freePages * pageBytes >= Self.bytesMin
    }

    /// The number of pages that one transaction returns (4 MiB), which limits the delay of a local
    /// change.
    static let pagesOfStep = 1000
    /// The minimum amount of free space that justifies the writes; later changes reuse a smaller
    /// amount.
    private static let bytesMin: Int64 = 1 << 20
    /// The maximum size of a file that is rewritten in memory without an explicit request.
    static let memoryMax: Int64 = 64 << 20
}
