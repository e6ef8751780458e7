// CallerView: visibility filters.

import TidelineCore

/// The visibility filter of a caller, as a condition and as a name that stays the same.
struct CallerView: Sendable {
    /// The condition for the visible rows; nil for all rows.
    let condition: QueryExpression?
    /// Whether rows can become visible or invisible just because time passes.
    let dependsOnTime: Bool
    /// The owner column and the caller's id; empty without an owner column.
    private let owner: [String]
    private let filter: RowFilter?

    init(owner column: String?, user: User?, filter: RowFilter?, in table: Table, now: Int64) throws
    {
        var parts: [QueryExpression] = []
        var owner: [String] = []
        if let column {
            // The permissions reject callers without a token before this point.
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

    /// A hash of the visibility filter, which differs for each filter.
    var fingerprint: Fingerprint {
        guard !owner.isEmpty || filter != nil else { return Fingerprint(bits: 0) }
        return Fingerprint(owner + [""] + (filter.map { [$0.identity] } ?? []))
    }
}

extension Table {
    /// Returns the visibility filter of a user; `now` is the time of the request.
    func callerView(
        for user: User?,
        at now: Int64
    ) async throws -> CallerView {
        // An operator sees all rows.
        if user?.isOperator == true {
            return try CallerView(owner: nil, user: user, filter: nil, in: self, now: now)
        }
        return try CallerView(
            owner: definition.owner,
            user: user,
            filter: try await hooks?.rowFilter?(user),
            in: self,
            now: now
        )
    }

    /// Returns the same filter as an expression for every statement; nil for all rows.
    func view(
        for user: User?,
        at now: Int64
    ) async throws -> QueryExpression? {
        try await callerView(for: user, at: now).condition
    }
}
