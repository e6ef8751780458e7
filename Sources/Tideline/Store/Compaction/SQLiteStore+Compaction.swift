// SQLiteStore: giving the pages that nothing uses any more back to the disk.
//
// New files are in SQLite's incremental mode: free pages are given back in short transactions. A file of an
// earlier version is rewritten once, in one transaction (VACUUM), and is in that mode afterwards. Both are
// safe under kills and with other processes on the file, as any transaction is.

import Synchronization
import TidelineCore
import TidelineSQLite

/// What ``SQLiteStore/compact(deadline:)`` gave back.
public struct CompactionResult: Sendable, Hashable {
    /// How many bytes the file is shorter; on disk as soon as its log is emptied.
    public var freedBytes: Int64
    /// Whether nothing is left to give back.
    public var isComplete: Bool

    /// A result, for a test of an app.
    public init(freedBytes: Int64 = 0, isComplete: Bool = true) {
        self.freedBytes = freedBytes
        self.isComplete = isComplete
    }
}

/// A store whose file keeps the space of removed rows until it is compacted.
protocol SpaceSaver: LocalStore {
    /// Gives space back if at least half of the file is free.
    func compactIfHalfFree(deadline: Duration) async
}

extension SQLiteStore: SpaceSaver {
    /// Gives the space of removed rows back to the disk, and ends by the deadline.
    ///
    /// A purge does so by itself when it leaves half of the file free. What is not done by the deadline is left
    /// for the next call; nothing that was done is lost. Reads and changes go on meanwhile. Only a file that was
    /// made by an earlier version of this library is rewritten as a whole the first time: changes wait until that
    /// is done, it needs as much free space as the rows take, and if the time is too short nothing happens.
    ///
    /// ```swift
    /// let result = try await store.compact(deadline: .seconds(5))
    /// ```
    ///
    /// - Returns: How much was given back, and whether that is all.
    /// - Throws: ``SyncError`` with code `storeFailure`, such as for a full disk or a closed store, or
    ///   `storeUnavailable`. The file is as it was, or shorter.
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
        // A log that is in use is emptied by a later commit.
        await log?.finishCopying()
        _ = await emptyLog()
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

    /// Rewrites a file of an earlier version; leaves it as it is if the time is too short.
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

    func compactIfHalfFree(deadline: Duration) async {
        guard let space = try? await writer.run({ try FreeSpace($0) }), space.isHalfFree else {
            return
        }
        // The temporary copy of an encrypted file is in memory.
        if isEncrypted, !space.isIncremental, space.usedBytes > FreeSpace.memoryMax { return }
        // Where it fails, such as on a full disk, the space stays with the file and is used again.
        _ = try? await compact(deadline: deadline)
    }
}

/// The pages of a file that nothing uses.
private struct FreeSpace: Sendable {
    var freePages: Int64
    var pages: Int64
    var pageBytes: Int64
    /// Whether free pages can be given back without rewriting the file.
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

    /// How many pages one transaction gives back (4 MiB): a local change waits no longer than that takes.
    static let pagesOfStep = 1000
    /// Below this it is not worth the writes: the space is used again.
    private static let bytesMin: Int64 = 1 << 20
    /// How large a file may be that is rewritten in memory without being asked for.
    static let memoryMax: Int64 = 64 << 20
}
