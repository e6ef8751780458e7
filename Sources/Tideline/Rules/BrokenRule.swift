// BrokenRule: the rule that a row breaks, for an app that shows it next to the property.

public import TidelineCore

/// A rule that a row breaks, on the device or on the server.
///
/// ```swift
/// do {
///     try await jobs.insert(job)
/// } catch let error as SyncError where error.code == .ruleBroken {
///     show((error.message, error.brokenRule?.columns ?? []))
/// }
/// ```
public struct BrokenRule: Hashable, Sendable {
    /// The table's name.
    public let table: String
    /// The columns that the rule is about.
    public let columns: [String]
    /// The kind of the rule; its raw value is the code of the server's response.
    public let code: RuleViolation.Code

    /// Creates a value, for an app's tests.
    public init(table: String, columns: [String], code: RuleViolation.Code) {
        self.table = table
        self.columns = columns
        self.code = code
    }
}

extension SyncError {
    /// The error for a row that breaks a rule, with the message that the server would send.
    package static func ruleBroken(_ violation: RuleViolation, table: String) -> SyncError {
        var error = SyncError(.ruleBroken, violation.message, cause: violation)
        error.brokenRule = BrokenRule(
            table: table,
            columns: violation.columns,
            code: violation.code
        )
        return error
    }
}

extension RowRules {
    /// Rejects a row that is inserted.
    ///
    /// - Throws: ``SyncError`` with code `ruleBroken`.
    func check(inserted row: Row, table: String) throws {
        if let violation = check(row) { throw SyncError.ruleBroken(violation, table: table) }
    }

    /// Rejects a row that breaks a rule in a value that differs from `server`, the server's row.
    ///
    /// If `server` is nil, the server does not have the row, and all values are checked.
    ///
    /// - Throws: ``SyncError`` with code `ruleBroken`.
    func check(_ row: Row, inPlaceOf server: Row?, table: String) throws {
        guard let server else { return try check(inserted: row, table: table) }
        try check(RowMerge.changes(from: server, to: row), in: row, table: table)
    }

    /// Rejects changes to a row that break a rule.
    ///
    /// Values that a change does not set are not checked, because the rules may have become stricter since those values
    /// were stored.
    ///
    /// - Throws: ``SyncError`` with code `ruleBroken`.
    func check(_ changes: Row, in row: Row, table: String) throws {
        if let violation = check(row, changing: Set(changes.names)) {
            throw SyncError.ruleBroken(violation, table: table)
        }
    }
}
