// FileWatch: notices that a database file was replaced.
//
// It calls stat before and after each commit, and once a second. If it cannot explain a change, a new connection
// reads the identity and the newest commit from the file. The connection must be new, because open ones have pages of
// the former file.

import Dispatch
import Foundation
import Synchronization
import TidelineSQLite
import TidelineServerCore

/// A watch that compares the open database with the files at its path.
final class FileWatch: Sendable {
    private struct State {
        var fault: FileFault?
        /// The database, its log, the index of the log and the lock file, in this order.
        var files: [WatchedFile] = []
        /// The largest size that the database had.
        var sizeMax: Int64 = 0
        /// The time of the last write to the file that was verified.
        var verified: FileTime?
        /// Whether the last verification could not read the file without its log.
        var isUnread = false
        /// The identity of the file.
        var identity: String?
        var record: FileRecord?
    }

    private let path: String
    private let lock: FileLock
    private let log: ServerLog
    private let state = Mutex(State())
    private let isStopped = DispatchSemaphore(value: 0)
    /// The number of pages in the log after the last commit.
    private let logPages = Atomic(0)
    private let pageBytes: Int64
    /// The number of running checkpoints, which explain writes to the database.
    private let copies = Atomic(0)
    /// The number of times that a checkpoint has begun or ended.
    private let copyEvents = Atomic(0)
    /// The newest commit timestamp.
    private let timestamp = Atomic<Int64>(0)
    /// Whether the commit with the identity is in the log or in the database.
    private let isIdentified = Atomic(false)
    /// The newest commit timestamp in the database without its log; negative until the whole log, with the identity,
    /// was copied once.
    private let copiedTimestamp = Atomic<Int64>(-1)

    /// Records the file at the path immediately after it was opened.
    init(path: String, lock: FileLock, database: Database, log: ServerLog) throws {
        self.path = path
        self.lock = lock
        self.log = log
        pageBytes = try database.integer("PRAGMA page_size") ?? 4096
        state.withLock { state in
            state.files = [path, path + "-wal", path + "-shm"].map { WatchedFile($0) }
            state.files.append(WatchedFile(lock.path, number: lock.number))
        }
    }

    /// Begins to check the file of a starting server once a second.
    func begin(on database: Database) throws {
        guard state.withLock({ $0.identity == nil }) else { return }
        let identity = try database.text("SELECT lower(hex(randomblob(8)))")
        let reason = try database.transaction { try takeOver(database, identity: identity) }
        isIdentified.store(true, ordering: .sequentiallyConsistent)
        // New connections read the identity from the file itself and not from the log.
        if try copying({ try database.checkpoint(.truncate) }) {
            // The commits of the startup are no longer in the log.
            logPages.store(0, ordering: .sequentiallyConsistent)
        }
        tookOver(identity)
        if let reason {
            log.write(
                .warning,
                "the database differs from what its server last wrote; clients pull everything from the start",
                ["cause": reason]
            )
        }
        if !lock.isWritable {
            let warning = Self.unwritableLock(lock.path)
            log.write(
                .warning,
                "the history of the database file is not watched",
                ["cause": warning.text]
            )
        }
        beginChecks()
    }

    /// The warning about a lock file that the server can read but not write.
    static func unwritableLock(_ path: String) -> StoreWarning {
        StoreWarning(
            "fileHistoryOff",
            "The server cannot write '\(path)', so it cannot detect that the database is replaced "
                + "while no server runs. Change the file's owner to the server's user, or remove the file while no "
                + "server runs."
        )
    }

    private func beginChecks() {
        let thread = Thread { [weak self, isStopped] in
            while isStopped.wait(timeout: Self.nextCheck) == .timedOut {
                guard let self else { return }
                state.withLock { if $0.isUnread { $0.verified = nil } }
                if check() == nil { noteRecord() }
            }
        }
        thread.name = "tideline-file"
        thread.start()
    }

    private static var nextCheck: DispatchTime {
        DispatchTime(uptimeNanoseconds: QueryStart().adding(.seconds(1)))
    }

    /// Stores the newest commit timestamp in the lock file.
    func stop() { noteRecord() }

    /// Ends the checks.
    func end() { isStopped.signal() }

    /// Records that the log of the writing connection has this many pages after a commit.
    func committed(pages: Int) { logPages.store(pages, ordering: .sequentiallyConsistent) }

    /// Runs a checkpoint.
    ///
    /// - Returns: Whether no other connection prevented the checkpoint.
    @discardableResult
    func copying(_ body: () throws -> (pages: Int, copied: Int)?) rethrows -> Bool {
        // After a crash, the log may be so long that a checkpoint begins before the identity is committed.
        let includesIdentity = isIdentified.load(ordering: .sequentiallyConsistent)
        let before = timestamp.load(ordering: .sequentiallyConsistent)
        copies.wrappingAdd(1, ordering: .sequentiallyConsistent)
        copyEvents.wrappingAdd(1, ordering: .sequentiallyConsistent)
        defer {
            copies.wrappingSubtract(1, ordering: .sequentiallyConsistent)
            copyEvents.wrappingAdd(1, ordering: .sequentiallyConsistent)
        }
        guard let result = try body() else { return false }
        if includesIdentity, result.copied == result.pages {
            copiedTimestamp.max(before, ordering: .sequentiallyConsistent)
        }
        return true
    }

    /// Records that a commit changed clocks to these times.
    func committed(_ moved: [TableTimestamp]) {
        guard let newest = moved.map(\.timestamp).max() else { return }
        timestamp.max(newest, ordering: .sequentiallyConsistent)
    }

    // MARK: - History

    /// Compares the history of the file with its record, and gives it a new identity, within a transaction.
    ///
    /// - Returns: The reason why the epoch was renewed; nil if it was not.
    func takeOver(_ database: Database, identity: String) throws -> String? {
        let newest = try FileIdentity.timestamp(database)
        let inside = try FileIdentity.read(database)
        let inode = FileNumber(of: path)?.inode ?? 0
        let history = FileHistory(
            inside: inside,
            // A lock file that cannot be written proves nothing.
            outside: lock.record,
            inode: inode,
            timestamp: newest
        )
        let former = inside.map { [$0.name] } ?? []
        // The record has the old and the new identity, because the commit of this transaction may fail.
        lock.note(FileRecord(identities: former + [identity], timestamp: newest))
        try FileIdentity(name: identity, inode: inode).put(database)
        timestamp.max(newest, ordering: .sequentiallyConsistent)
        guard case .changed(let reason) = history else { return nil }
        try database.execute(ServerSchema.renewEpoch)
        return reason
    }

    /// Records the file's new identity, which is checked from now on.
    func tookOver(_ identity: String) {
        state.withLock { $0.identity = identity }
        noteRecord()
    }

    private func noteRecord() {
        let newest = timestamp.load(ordering: .sequentiallyConsistent)
        state.withLock { state in
            guard let identity = state.identity, state.fault == nil else { return }
            let record = FileRecord(identities: [identity], timestamp: newest)
            guard record != state.record else { return }
            state.record = record
            lock.note(record)
        }
    }

    // MARK: - Checks

    /// Returns why nothing may be written or acknowledged; nil if the file is valid.
    func check() -> ServerError? {
        state.withLock { state in
            if let fault = state.fault { return fault.rejection }
            guard let fault = inspect(&state) else { return nil }
            take(fault, &state)
            return fault.rejection
        }
    }

    /// Checks the file after an error of SQLite, which a damaged file may have caused.
    ///
    /// - Returns: The rejection, if the file is at fault.
    @discardableResult
    func met(_ error: any Error) -> ServerError? {
        guard let error = error as? SQLiteError else { return nil }
        let isDamage = error.isCorrupt || error.isNotADatabase
        guard isDamage || error.isInputOutput || error.isCannotOpen else { return nil }
        return state.withLock { state in
            if let fault = state.fault { return fault.rejection }
            // A file that was replaced or truncated looks damaged as well.
            state.verified = nil
            guard let fault = inspect(&state) ?? (isDamage ? .damaged(path) : nil) else {
                return nil
            }
            take(fault, &state)
            return fault.rejection
        }
    }

    private func take(_ fault: FileFault, _ state: inout State) {
        state.fault = fault
        log.write(
            .error,
            "the database file is damaged or was replaced; writes are disabled",
            ["cause": fault.code.rawValue, "do": fault.remedy]
        )
    }

    private func inspect(_ state: inout State) -> FileFault? {
        // This is read before the files, because commits continue.
        let pages = Int64(logPages.load(ordering: .sequentiallyConsistent))
        let isOwn = copies.load(ordering: .sequentiallyConsistent) > 0
        var size: FileStatus?
        var logSize: FileStatus?
        for index in state.files.indices {
            let found = state.files[index].status()
            if index == 0 { size = found }
            if index == 1 { logSize = found }
            let isLock = index == state.files.count - 1
            let file = state.files[index].path
            guard let number = state.files[index].number else {
                // The first read creates the index of the log.
                state.files[index].number = found?.number
                continue
            }
            guard let found else { return isLock ? .locked(file) : .missing(file) }
            guard found.number == number else { return isLock ? .locked(file) : .replaced(file) }
        }
        guard let size, let logSize else { return .missing(path) }
        defer { state.sizeMax = max(state.sizeMax, size.bytes) }
        if size.bytes < state.sizeMax, isCutOff(size) { return .truncated(path) }
        let logBytes = pages == 0 ? 0 : Self.logHead + pages * (pageBytes + Self.frameHead)
        let isLogShort = logSize.bytes < logBytes
        let isDoubtful = size.time != state.verified && !isOwn || isLogShort
        guard state.identity != nil, isDoubtful else { return nil }
        switch verify(state.identity, isLogShort: isLogShort) {
        case .fault(let fault): return fault
        case .unknown: return nil
        case .sound(let isRead):
            state.verified = size.time
            state.isUnread = !isRead
            // Another program has copied the log to the database and emptied it.
            if isLogShort { logPages.store(0, ordering: .sequentiallyConsistent) }
            return nil
        }
    }

    /// Returns whether the file is shorter than its header requires.
    ///
    /// A program that compacts the file changes both.
    private func isCutOff(_ size: FileStatus) -> Bool {
        guard let header = try? DatabaseHeader(path: path), header.isDatabase else { return true }
        return header.bytes > size.bytes
    }

    private enum Finding {
        /// `isRead` is false if the file could not be read without its log, so that the log may hide an older file.
        case sound(isRead: Bool)
        case fault(FileFault)
        /// The result is not known; the next check repeats the comparison.
        case unknown
    }

    /// Reads the identity and the newest commit with a new connection.
    private func verify(_ identity: String?, isLogShort: Bool) -> Finding {
        let comparison = compareWithoutLog(identity)
        if comparison == .older { return .fault(.replaced(path)) }
        // This is read before the check, because commits continue.
        let known = timestamp.load(ordering: .sequentiallyConsistent)
        let cut = FileFault.truncated(path + "-wal")
        do {
            let database = try Database(path: path, mode: .readOnly)
            guard try FileIdentity.read(database)?.name == identity else {
                return .fault(.replaced(path))
            }
            guard try FileIdentity.timestamp(database) >= known else {
                return .fault(isLogShort ? cut : .replaced(path))
            }
            return .sound(isRead: comparison == .current)
        } catch let error as SQLiteError where error.isBusy {
            // Another program holds a lock on the file for a moment, which reveals nothing about its contents.
            return .unknown
        } catch let error as SQLiteError where error.isCorrupt || error.isNotADatabase {
            return .fault(isLogShort ? cut : .damaged(path))
        } catch let error as SQLiteError where error.isGeneric {
            // The table of the identity is missing.
            return .fault(.replaced(path))
        } catch {
            // No descriptor is free, or the disk fails: the result is unknown, unless the log is too short.
            return isLogShort ? .fault(cut) : .unknown
        }
    }

    private enum Comparison {
        /// The file has these commits, or a checkpoint of this server explains the difference.
        case current
        /// The file lacks commits that were copied to it, or has a different identity.
        case older
        /// The file is not a whole database without its log.
        case unreadable
    }

    /// Compares the database without its log with the commits that were copied to it.
    ///
    /// An earlier copy of the file that was written over it lacks some of them, which the pages of the log hide. A
    /// checkpoint may be in progress, so an older file is read again. While a connection reads an older state, a
    /// checkpoint copies some pages and not others: the first page may name more pages than the file has. An
    /// unreadable file therefore proves nothing.
    private func compareWithoutLog(_ identity: String?) -> Comparison {
        let known = copiedTimestamp.load(ordering: .sequentiallyConsistent)
        guard known >= 0 else { return .current }
        let pause = DispatchSemaphore(value: 0)
        for _ in 0..<Self.overwrittenTries {
            let before = copyEvents.load(ordering: .sequentiallyConsistent)
            do {
                let database = try Database(path: path, mode: .frozen)
                if try FileIdentity.read(database)?.name == identity,
                    try FileIdentity.timestamp(database) >= known
                {
                    return .current
                }
            } catch let error as SQLiteError where error.isCannotOpen {
                return .current
            } catch {
                return .unreadable
            }
            let isOwn = copies.load(ordering: .sequentiallyConsistent) > 0
            let isCopied = before != copyEvents.load(ordering: .sequentiallyConsistent)
            if isOwn || isCopied { return .current }
            _ = pause.wait(timeout: Self.nextTry)
        }
        return .older
    }

    private static let overwrittenTries = 5

    private static var nextTry: DispatchTime {
        DispatchTime(uptimeNanoseconds: QueryStart().adding(.milliseconds(20)))
    }

    /// The bytes of the log before its first page, and before each page.
    private static let logHead: Int64 = 32
    private static let frameHead: Int64 = 24
}

/// The device and inode numbers of a file, which do not depend on its name.
struct FileNumber: Hashable, Sendable {
    var device: Int64
    var inode: Int64

    init?(of path: String) {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        self.init(status)
    }

    init?(of descriptor: Int32) {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return nil }
        self.init(status)
    }

    fileprivate init(_ status: stat) {
        device = Int64(truncatingIfNeeded: status.st_dev)
        inode = Int64(truncatingIfNeeded: status.st_ino)
    }
}

/// The time of the last write to a file.
struct FileTime: Hashable, Sendable {
    var seconds: Int64
    var nanoseconds: Int64
}

/// A file whose number is compared, with its path as stat takes it.
private struct WatchedFile {
    let path: String
    private let pathBytes: ContiguousArray<CChar>
    /// The number that the file must have; nil if it did not exist yet.
    var number: FileNumber?

    init(_ path: String) {
        self.init(path, number: FileNumber(of: path))
    }

    init(_ path: String, number: FileNumber?) {
        self.path = path
        pathBytes = path.utf8CString
        self.number = number
    }

    func status() -> FileStatus? {
        pathBytes.withUnsafeBufferPointer { path in path.baseAddress.flatMap(FileStatus.init(of:)) }
    }
}

/// The status of a file, as the system reports it for a path.
private struct FileStatus {
    var number: FileNumber
    var bytes: Int64
    /// The time of the last write.
    var time: FileTime

    init?(of path: UnsafePointer<CChar>) {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        number = FileNumber(status)
        bytes = Int64(status.st_size)
        #if canImport(Darwin)
        let written = status.st_mtimespec
        #else
        let written = status.st_mtim
        #endif
        time = FileTime(seconds: Int64(written.tv_sec), nanoseconds: Int64(written.tv_nsec))
    }
}
