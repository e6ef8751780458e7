// SQLiteStore: checks whether a file is undamaged and unchanged since the store last wrote it.

import Synchronization
import TidelineCore
import TidelineSQLite

/// The result of checking a store.
public struct StoreReport: Sendable, Hashable {
    /// The problems that were found, one sentence each.
    ///
    /// The sentences contain no values of rows.
    public var problems: [String]

    /// Whether the check found no problems.
    public var isSound: Bool { problems.isEmpty }

    /// Creates a report of these problems.
    public init(problems: [String] = []) { self.problems = problems }
}

extension SQLiteStore {
    /// Checks the integrity of the file: its pages and indexes, the queued operations, and each
    /// row's values against its checksum.
    ///
    /// The check reads the whole file and changes nothing. It covers the rows of the tables that
    /// `initialize` opened. It sends nothing to the server; to compare with the server, call
    /// `verify(queryID:)`.
    ///
    /// ```swift
    /// let report = try await store.check()
    /// if !report.isSound { print(report.problems.joined(separator: "\n")) }
    /// ```
    ///
    /// The contexts that were initialized with the store report the progress as events.
    ///
    /// - Throws: ``SyncError`` with code `storeFailure` if the file cannot be opened, or
    ///   `cancelled` if the task is cancelled before the last table is checked.
    public func check() async throws -> StoreReport {
        checks.send(.checkStarted)
        do {
            let checks = checks
            let report = try await TransactionWatch.during("check") { watch in
                try await read { reader in
                    guard let reader = reader as? SQLiteTransaction else { return StoreReport() }
                    do {
                        let problems = try reader.problems {
                            try watch.check()
                        } checked: {
                            checks.send(.tableChecked(table: $0))
                        }
                        return StoreReport(problems: problems)
                    } catch let error as SQLiteError where error.isCorrupt {
                        // SQLite's page check ends with this error if it cannot continue.
                        return StoreReport(problems: ["The file is damaged: \(error.message)."])
                    }
                }
            }
            checks.send(.checkFinished(problems: report.problems.count))
            return report
        } catch {
            checks.send(.checkFailed(code: SyncError.Code(of: error)))
            throw error
        }
    }
}

extension SQLiteStore {
    /// The contexts that report the checks of this store as events.
    public var checkListeners: CheckListeners? { checks }
}

/// The contexts that use a store and report its checks as events.
///
/// A context may end before the store.
public final class CheckListeners: Sendable {
    private struct Listener: Sendable {
        weak var events: SyncEvents?
    }

    private let listeners = Mutex<[Listener]>([])

    /// Creates an empty list.
    public init() {}

    /// Adds a listener; a context that is initialized again is still notified only once.
    func add(_ events: SyncEvents) {
        listeners.withLock { listeners in
            listeners.removeAll { $0.events == nil || $0.events === events }
            listeners.append(Listener(events: events))
        }
    }

    /// Sends an event, such as `checkFinished`, to all contexts.
    public func send(_ event: SyncEvent) {
        for listener in listeners.withLock({ $0 }) { listener.events?.send(event) }
    }
}

extension SQLiteTransaction {
    /// The maximum number of faults in the file that are reported.
    private static let faultsMax = 20

    /// `willCheck` is called before each part of the check, and `checked` after each table.
    fileprivate func problems(
        _ willCheck: () throws -> Void,
        checked: (String) -> Void
    ) throws -> [String] {
        try willCheck()
        let statement = try database.prepare("PRAGMA quick_check(\(Self.faultsMax))")
        defer { statement.reset() }
        var problems: [String] = []
        while try statement.step() {
            let fault = statement.text(0)
            if fault != "ok" { problems.append("The file is damaged: \(fault).") }
        }
        // The contents of damaged pages are meaningless.
        guard problems.isEmpty else { return problems }
        var rows = try queueProblems()
        for name in tables.keys.sorted() {
            try willCheck()
            if let problem = try rowProblem(name) { rows.append(problem) }
            if !SystemTables.names.contains(name) { checked(name) }
        }
        return rows
    }

    private func queueProblems() throws -> [String] {
        guard tables[SystemTables.operations] != nil else { return [] }
        return try rows(TableQuery(), in: SystemTables.operations).compactMap { row in
            let operation = QueuedOperation(storedRow: row) { tables[$0]?.schema }
            return operation.damage.map {
                "Operation \(operation.id) in the queue cannot be read: column '\($0.column)'."
            }
        }
    }

    private func rowProblem(_ name: String) throws -> String? {
        let count = try uncertainRows(nil, in: name).changed.count
        guard count > 0 else { return nil }
        return "\(count) row(s) of '\(name)' differ from what the store wrote: another "
            + "program changed the file. verify(queryID:repair:) restores the server's rows."
    }
}
