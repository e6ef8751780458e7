// ErrorCode: the codes of problem documents, which callers may read (protocol.md, "Errors").

/// The `code` of an error, for programs.
///
/// The names are part of the public protocol, so renaming one breaks callers.
package enum ErrorCode: String, Sendable, CaseIterable {
    // Routes, rows and links.
    case noSuchPath
    case noSuchTable
    case noSuchRow
    case rowDeleted
    case deltaExpired
    case epochChanged
    case schemaChanged
    case viewChanged

    // Requests.
    case notJSON
    case crossSite
    case tooManyRequests
    case outcomeUnknown

    // Repeated requests.
    case repeatability
    case repeatabilityMismatch
    case repeatabilityExpired
    case repeatabilityAhead

    // Batches.
    case batchAnswersTooLarge
    case conditionsNotSupported
    case dependencyFailed
    case groupFailed
    case notProcessed

    // A dynamic schema.
    case tooManyTables
    case tooManyColumns

    // References between rows.
    case parentNotFound
    case rowIsReferenced

    // Rules of a table, as `RuleViolation.Code`.
    case valueRequired
    case valueTooLong
    case valueTooSmall
    case valueTooLarge
    case patternMismatch
    case comparisonFailed
    case notUnique

    // Constraints that an operator added to tables.
    case uniqueConstraint
    case checkConstraint
    case foreignKeyConstraint
    case notNullConstraint
    case triggerConstraint
    case otherConstraint

    // The database file.
    case databaseMissing
    case databaseReplaced
    case databaseTruncated
    case databaseLockMissing
    case databaseDamaged

    /// Whether a constraint of the operator's tables rejected a row.
    var isConstraint: Bool {
        switch self {
        case .uniqueConstraint, .checkConstraint, .foreignKeyConstraint, .notNullConstraint,
            .triggerConstraint, .otherConstraint:
            true
        case .noSuchPath, .noSuchTable, .noSuchRow, .rowDeleted, .deltaExpired, .epochChanged,
            .schemaChanged, .viewChanged, .notJSON, .crossSite, .tooManyRequests, .outcomeUnknown,
            .repeatability, .repeatabilityMismatch, .repeatabilityExpired, .repeatabilityAhead,
            .batchAnswersTooLarge, .conditionsNotSupported, .dependencyFailed, .groupFailed,
            .notProcessed, .tooManyTables, .tooManyColumns, .parentNotFound, .rowIsReferenced,
            .valueRequired, .valueTooLong, .valueTooSmall, .valueTooLarge, .patternMismatch,
            .comparisonFailed, .notUnique, .databaseMissing, .databaseReplaced,
            .databaseTruncated, .databaseLockMissing, .databaseDamaged:
            false
        }
    }
}
