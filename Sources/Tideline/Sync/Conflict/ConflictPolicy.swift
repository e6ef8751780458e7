// ConflictPolicy: determines how a conflict is resolved.

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

    /// Parks the operation with an error that contains both rows.
    public static let fail = ConflictPolicy(kind: .fail)

    /// The server's row replaces the local change, but edits made after the change was sent are
    /// kept.
    public static let serverWins = ConflictPolicy(kind: .serverWins)

    /// The local row is resent, based on the server's row, and replaces it.
    public static let clientWins = ConflictPolicy(kind: .clientWins)

    /// Each column gets the value of the side that changed it since the base version.
    ///
    /// If both sides changed a column to different values, or if one side deleted the row, the
    /// operation is parked as under ``fail``. Use ``merge(_:)`` to provide rules for such columns.
    public static let merge = ConflictPolicy(kind: .merge([:]))

    /// Merges by column, with rules for the columns that both sides changed.
    ///
    /// The keys of `rules` are column names. A column without a rule is merged as under ``merge``.
    public static func merge(_ rules: [String: MergeRule]) -> ConflictPolicy {
        ConflictPolicy(kind: .merge(rules))
    }

    /// Lets a closure of the app resolve each conflict.
    ///
    /// ```swift
    /// let policy = ConflictPolicy.custom { conflict in
    ///     if let merged = conflict.merged(["rank": .max]) { return .write(merged) }
    ///     return conflict.local == nil ? .server : .fail
    /// }
    /// ```
    ///
    /// A push calls the closure outside any transaction, for one conflict at a time. The closure
    /// may run for as long as it needs, ask the user, and read and change local tables. If it
    /// starts a push, pull or purge, that call throws an error, because the two would wait for each
    /// other.
    ///
    /// If the row changes in the meantime, or if the app is terminated, the closure is called again
    /// with the current state. If the closure throws an error, the operation is parked.
    public static func custom(
        _ decide: @escaping @Sendable (Conflict) async throws -> Resolution
    ) -> ConflictPolicy {
        ConflictPolicy(kind: .custom(ConflictHandler(decide)))
    }

    /// The columns for which the policy has rules.
    var ruledColumns: [String] {
        if case .merge(let rules) = kind { rules.keys.sorted() } else { [] }
    }

    /// Returns whether the rule of one of the row's columns may add two equal changes together.
    func addsUp(columnsOf row: Row?) -> Bool {
        guard case .merge(let rules) = kind, let row else { return false }
        return rules.contains { $0.value.isClosure && row[$0.key] != nil }
    }
}
