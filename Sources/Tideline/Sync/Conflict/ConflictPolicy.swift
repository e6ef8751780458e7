// ConflictPolicy: how a conflict is resolved.

/// The policy that resolves conflicts.
///
/// See <doc:ResolvingConflicts>.
///
/// ```swift
/// try await client.syncContext.initialize(
///     store: store,
///     tables: [TodoItem.self, TodoList.self],
///     conflicts: .serverWins,
///     tableConflicts: ["TodoItem": .merge(["rank": .max])]
/// )
/// ```
public struct ConflictPolicy: Sendable, Hashable {
    package enum Kind: Sendable, Hashable {
        case fail
        case serverWins
        case clientWins
        /// Rules by column.
        case merge([String: MergeRule])
        case custom(ConflictHandler)
    }

    package let kind: Kind

    /// Parks the operation, with an error that has both rows.
    public static let fail = ConflictPolicy(kind: .fail)

    /// The server's row replaces the local change; edits that were made after the change was sent are kept.
    public static let serverWins = ConflictPolicy(kind: .serverWins)

    /// The local row is sent again, based on the server's row, and replaces it.
    public static let clientWins = ConflictPolicy(kind: .clientWins)

    /// Each column gets the value of the side that changed it since the base version.
    ///
    /// A row with a column that both sides changed, to different values, is parked as under
    /// ``fail``, and so is a row that one side deleted. ``merge(_:)`` takes rules for such columns.
    public static let merge = ConflictPolicy(kind: .merge([:]))

    /// Merges by column, with rules for the columns that both sides changed.
    ///
    /// The rules are given by the names of the columns. A column without a rule is merged as under ``merge``.
    public static func merge(_ rules: [String: MergeRule]) -> ConflictPolicy {
        ConflictPolicy(kind: .merge(rules))
    }

    /// Lets the app's code decide.
    ///
    /// ```swift
    /// let policy = ConflictPolicy.custom { conflict in
    ///     if let merged = conflict.merged(["rank": .max]) { return .write(merged) }
    ///     return conflict.local == nil ? .server : .fail
    /// }
    /// ```
    ///
    /// A push calls the closure outside any transaction, for one conflict at a time. The closure may run for
    /// any time, ask the user, and read and change local tables. A push, pull or purge that it starts throws an
    /// error, because the two would wait for each other. If the row changes in the meantime, the closure is
    /// called again with the new state; it is also called again after the app was terminated. An error that it
    /// throws parks the operation.
    public static func custom(
        _ decide: @escaping @Sendable (Conflict) async throws -> Resolution
    ) -> ConflictPolicy {
        ConflictPolicy(kind: .custom(ConflictHandler(decide)))
    }

    /// The columns that the policy has rules for.
    var ruledColumns: [String] {
        if case .merge(let rules) = kind { rules.keys.sorted() } else { [] }
    }

    /// Returns whether a rule for one of the row's columns may add up two equal changes.
    func addsUp(columnsOf row: Row?) -> Bool {
        guard case .merge(let rules) = kind, let row else { return false }
        return rules.contains { $0.value.isClosure && row[$0.key] != nil }
    }
}
