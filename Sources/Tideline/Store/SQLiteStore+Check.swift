// SQLiteStore: whether a file is as the store left it.

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
    /// - Throws: ``SyncError`` with code `storeFailure` when the file cannot be read at all.
    public func check() async throws -> StoreReport {
        try await read { reader in
            guard let reader = reader as? SQLiteTransaction else { return StoreReport() }
            return StoreReport(problems: try reader.problems())
        }
    }
}

extension SQLiteTransaction {
    /// The most faults of pages that are told.
    private static let faultsMax = 20

    fileprivate func problems() throws -> [String] {
        let statement = try database.prepare("PRAGMA quick_check(\(Self.faultsMax))")
        defer { statement.reset() }
        var problems: [String] = []
        while try statement.step() {
            let fault = statement.text(0)
            if fault != "ok" { problems.append("The file is damaged: \(fault).") }
        }
        // What stands on damaged pages says nothing.
        guard problems.isEmpty else { return problems }
        return try queueProblems() + rowProblems()
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

    private func rowProblems() throws -> [String] {
        try tables.keys.sorted().compactMap { name in
            let count = try uncertainRows(nil, in: name).changed.count
            guard count > 0 else { return nil }
            return "\(count) row(s) of '\(name)' are not as they were stored: something else "
                + "changed the file. verify(queryID:repair:) puts the server's rows back."
        }
    }
}
