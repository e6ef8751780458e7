// CallerView: the visibility filter of a caller, as a condition and as a name that stays the same.

import TidelineCore

struct CallerView: Sendable {
    /// Nil for all rows.
    let condition: QueryExpression?
    /// Whether rows come into it and leave it by the time alone.
    let dependsOnTime: Bool
    /// The owner column and the caller's id; empty without an owner column.
    private let owner: [String]
    private let filter: RowFilter?

    init(owner column: String?, user: User?, filter: RowFilter?, in table: Table, now: Int64) throws
    {
        var parts: [QueryExpression] = []
        var owner: [String] = []
        if let column {
            // The permissions let only signed-in callers get here.
            guard let user else { throw ServerError.notSignedIn }
            owner = [column, user.id]
            parts.append(
                QueryExpression(
                    .compare(
                        .eq,
                        QueryExpression(.field(column)),
                        QueryExpression(.value(.string(user.id)))
                    )
                )
            )
        }
        var dependsOnTime = false
        if let filter {
            let (condition, callsNow) = try filter.expression(in: table.definition.schema, now: now)
            parts.append(condition)
            dependsOnTime = callsNow
        }
        self.owner = owner
        self.filter = filter
        self.dependsOnTime = dependsOnTime
        condition = parts.count > 1 ? QueryExpression(.all(parts)) : parts.first
    }

    /// Another one for every other view.
    var fingerprint: Fingerprint {
        guard !owner.isEmpty || filter != nil else { return Fingerprint(bits: 0) }
        return Fingerprint(owner + [""] + (filter.map { [$0.identity] } ?? []))
    }
}

extension TableService {
    /// Returns the part of the table that the user may see; `now` is the moment of the request.
    func callerView(
        of table: Table,
        for user: User?,
        at now: Int64
    ) async throws -> CallerView {
        // An operator sees all rows.
        if user?.isOperator == true {
            return try CallerView(owner: nil, user: user, filter: nil, in: table, now: now)
        }
        return try CallerView(
            owner: table.definition.owner,
            user: user,
            filter: try await table.hooks?.rowFilter?(user),
            in: table,
            now: now
        )
    }

    /// The same as a filter that every statement has; nil for all.
    func view(
        of table: Table,
        for user: User?,
        at now: Int64
    ) async throws -> QueryExpression? {
        try await callerView(of: table, for: user, at: now).condition
    }
}
