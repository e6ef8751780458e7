// SQLiteStore: whether a file is as the store left it.

import Synchronization
import TidelineCore
import TidelineSQLite

/// What a look at a store found.
public struct StoreReport: Sendable, Hashable {
    /// What is wrong, a sentence each; nothing of what rows hold.
    public var problems: [String]

    /// Whether nothing is wrong.
    public var isSound: Bool { problems.isEmpty }

    /// A report of these problems.
    public init(problems: [String] = []) { self.problems = problems }
}

extension SQLiteStore {
    /// Looks whether the file is whole: its pages and indexes, the entries of the queue, and the values
    /// of each row against their checksum.
    ///
    /// It reads the whole file and changes nothing. Rows are looked at in tables that were opened, as
    /// `initialize` does. What the server has is not asked: `verify(queryID:)` does that.
    ///
    /// ```swift
    /// let report = try await store.check()
    /// if !report.isSound { print(report.problems.joined(separator: "\n")) }
    /// ```
    ///
    /// The events of the contexts that were initialized with the store tell how far it is.
    ///
    /// - Throws: ``SyncError`` with code `storeFailure` when the file cannot be opened, or
    ///   `cancelled` when the task is cancelled before the last table was looked at.
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
                        // SQLite's look at the pages ends so where it cannot go on.
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

/// A store that tells how far a check of it is.
protocol CheckTeller: LocalStore {
    var checks: CheckListeners { get }
}

extension SQLiteStore: CheckTeller {}

/// The events of the contexts that use a store, which may end before it.
final class CheckListeners: Sendable {
    private struct Listener: Sendable {
        weak var events: SyncEvents?
    }

    private let listeners = Mutex<[Listener]>([])

    /// A context that is initialized once more listens once.
    func add(_ events: SyncEvents) {
        listeners.withLock { listeners in
            listeners.removeAll { $0.events == nil || $0.events === events }
            listeners.append(Listener(events: events))
        }
    }

    func send(_ event: SyncEvent) {
        for listener in listeners.withLock({ $0 }) { listener.events?.send(event) }
    }
}

extension SQLiteTransaction {
    /// The most faults of pages that are told.
    private static let faultsMax = 20

    /// `look` is called before each part, `checked` with each table.
    fileprivate func problems(
        _ look: () throws -> Void,
        checked: (String) -> Void
    ) throws -> [String] {
        try look()
        let statement = try database.prepare("PRAGMA quick_check(\(Self.faultsMax))")
        defer { statement.reset() }
        var problems: [String] = []
        while try statement.step() {
            let fault = statement.text(0)
            if fault != "ok" { problems.append("The file is damaged: \(fault).") }
        }
        // What stands on damaged pages says nothing.
        guard problems.isEmpty else { return problems }
        var rows = try queueProblems()
        for name in tables.keys.sorted() {
            try look()
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
                "Operation \(operation.id) of the queue cannot be read: column '\($0.column)'."
            }
        }
    }

    private func rowProblem(_ name: String) throws -> String? {
        let count = try uncertainRows(nil, in: name).changed.count
        guard count > 0 else { return nil }
        return "\(count) row(s) of '\(name)' are not as they were stored: something else "
            + "changed the file. verify(queryID:repair:) puts the server's rows back."
    }
}
