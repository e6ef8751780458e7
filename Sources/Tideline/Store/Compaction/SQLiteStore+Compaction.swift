// SQLiteStore: returns unused pages of the file to the disk.
//
// New files use SQLite's incremental mode: free pages are returned in short transactions. A file of an
// earlier version is rewritten once, in one transaction (VACUUM), and uses that mode afterwards. Both are
// as safe as any transaction if the process is killed or other processes use the file.

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

    /// Creates a result, for an app's tests.
    public init(freedBytes: Int64 = 0, isComplete: Bool = true) {
        self.freedBytes = freedBytes
        self.isComplete = isComplete
    }
}

extension SQLiteStore {
    /// Returns the space of removed rows to the disk, and ends by the deadline.
    ///
    /// A purge calls this if half of the file is free afterwards. If the deadline passes, the next call
    /// continues. Reads and changes can run at the same time. A file that an earlier version of this library
    /// created is rewritten completely the first time: changes wait until that is done, and it needs as much
    /// free space as the rows take. If the time is too short, nothing happens.
    ///
    /// ```swift
    /// let result = try await store.compact(deadline: .seconds(5))
    /// ```
    ///
    /// - Returns: The number of bytes that were returned, and whether no free page is left.
    /// - Throws: ``SyncError`` with code `storeFailure`, for example for a full disk or a closed store, or
    ///   `storeUnavailable`. The file is unchanged, or shorter.
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
        // If the log is in use, a later commit truncates it.
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

    /// Rewrites a file of an earlier version, or leaves it unchanged if the time is too short.
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
        // The temporary copy of an encrypted file is in memory.
        if isEncrypted, !space.isIncremental, space.usedBytes > FreeSpace.memoryMax { return }
        // If this fails, for example on a full disk, the file keeps the space and uses it later.
        _ = try? await compact(deadline: deadline)
    }
}

/// The unused pages of a file.
private struct FreeSpace: Sendable {
    var freePages: Int64
    var pages: Int64
    var pageBytes: Int64
    /// Whether free pages can be returned without rewriting the file.
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

    /// The number of pages that one transaction returns (4 MiB), which bounds the delay of a local change.
    static let pagesOfStep = 1000
    /// The minimum free space that is worth the writes; less is reused by later changes.
    private static let bytesMin: Int64 = 1 << 20
    /// The maximum size of a file that is rewritten in memory without an explicit request.
    static let memoryMax: Int64 = 64 << 20
}
