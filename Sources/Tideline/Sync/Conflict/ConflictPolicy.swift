// ConflictPolicy: who wins when the server's row is not the one that a change was based on.

/// Who wins a conflict.
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

    /// The operation is parked, and the error surfaces with both rows.
    public static let fail = ConflictPolicy(kind: .fail)

    /// The server's row replaces the local change; edits made after it was sent stay.
    public static let serverWins = ConflictPolicy(kind: .serverWins)

    /// The local row is sent again, whole, based on the server's row.
    public static let clientWins = ConflictPolicy(kind: .clientWins)

    /// Each column takes the value of the side that changed it since the row was last seen from the
    /// server.
    ///
    /// A row with a column that both sides changed, to different values, is parked as under
    /// ``fail``, and so is a row that one side deleted. ``merge(_:)`` takes rules for such columns.
    public static let merge = ConflictPolicy(kind: .merge([:]))

    /// Merges by column, and settles columns that both sides changed by rules.
    ///
    /// The rules are by the names of the columns. A column without a rule is as under ``merge``.
    public static func merge(_ rules: [String: MergeRule]) -> ConflictPolicy {
        ConflictPolicy(kind: .merge(rules))
    }

    /// The app's own code decides.
    ///
    /// ```swift
    /// let policy = ConflictPolicy.custom { conflict in
    ///     if let merged = conflict.merged(["rank": .max]) { return .write(merged) }
    ///     return conflict.local == nil ? .server : .fail
    /// }
    /// ```
    ///
    /// The closure is called by a push, outside any transaction, for one conflict after the other; it
    /// may take its time, ask the user, and read and change local tables. A push, pull or purge inside
    /// it is refused: it would wait for itself. When the row moves meanwhile, the closure is asked
    /// again with the new state, and so it is after the app was ended. An error that it throws parks
    /// the operation.
    public static func custom(
        _ decide: @escaping @Sendable (Conflict) async throws -> Resolution
    ) -> ConflictPolicy {
        ConflictPolicy(kind: .custom(ConflictHandler(decide)))
    }

    /// The columns that the policy has rules for.
    var ruledColumns: [String] {
        if case .merge(let rules) = kind { rules.keys.sorted() } else { [] }
    }

    /// Whether a column of a row has a rule that may make a sum of two equal changes.
    func addsUp(columnsOf row: Row?) -> Bool {
        guard case .merge(let rules) = kind, let row else { return false }
        return rules.contains { $0.value.isClosure && row[$0.key] != nil }
    }
}
