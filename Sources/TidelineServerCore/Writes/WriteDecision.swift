// WriteDecision: decides writes.
//
// Pure. WritePlanner computes the new row from it; TableRoutes turns it into a status.

package import TidelineCore

/// One write, as the store executes it.
package struct WriteOperation: Sendable {
    package enum Kind: Hashable, Sendable {
        /// POST on a table, which inserts a row.
        case insert
        /// PATCH, which changes the members in the body.
        case merge
        /// PUT, which sets absent members to their defaults.
        case replace
        /// DELETE.
        case delete
        /// POST on a row, which undeletes it.
        case undelete
    }

    /// The state of the row that a hook read and based its result on.
    package enum Basis: Hashable, Sendable {
        /// The row did not exist.
        case absent
        /// The row had this version.
        case version(Int64)
    }

    package var kind: Kind
    package var id: String
    /// The author of the write, in tables with `audit`.
    package var author = WriteAuthor()
    /// The references that the write may break; nil if the table has none.
    package var references: WriteReferences?
    /// The state that the row must still have; nil for any state.
    package var basis: Basis?
    /// Whether the row must still be visible to the caller after the write.
    package var staysInView = false
    /// The visibility filter of the caller; nil for all rows.
    ///
    /// Rows outside the filter are treated as if they did not exist.
    package var view: QueryExpression?
    /// Whether the caller may read the table.
    ///
    /// If not, no outcome depends on stored values.
    package var mayRead = true
    /// Whether the ledger may store the row of the answer; false if a delete has to erase its values.
    package var keepsRowInLedger = true
    /// The values by column; nil for an absent member.
    package var values: [SQLValue?] = []
    /// The values of columns that the body has under several names; the one that is not the stored one counts.
    package var alternatives: [Int: AlternativeValues] = [:]
    /// The defaults of the database for columns that a JSON Patch resets.
    package var databaseDefaults: [Int: SQLValue] = [:]
    /// The operations on the stored row, which replace `values`.
    package var patch: JSONPatch?
    package var conditions = Preconditions.none
    /// The version in a 2.x body; the write is rejected with 409 if the row has a different one.
    package var expectedVersion: String?
    /// The version in a datasync PATCH; the write is rejected with 400 if the row has a different one.
    package var claimedVersion: String?
    /// Whether the body has a different `id`, or null as `id`, `version` or `updatedAt`, which no stored row has.
    package var claimsOther = false
    /// The time in a datasync PATCH; the write is rejected with 400 if the row has a different one.
    package var claimedUpdatedAt: Int64?
    /// The new value of `deleted`; nil to keep it.
    package var deleted: Bool?
    /// Whether tombstones may be written to.
    package var includesDeleted = false
    package var softDelete = true
    /// The rule that applies if `If-Match` fails, or if the version in the body is not the stored one.
    package var conflict = ConflictRule.reject
    /// Whether a conflict handler replaced a delete with this write; the answer then says that the row still
    /// exists.
    package var isInPlaceOfDelete = false
    /// The size of the strings and blobs in the values, in bytes.
    package var bytes: Int { values.reduce(0) { $0 + ($1?.bytes ?? 0) } }
    /// Whether absent columns get their defaults.
    package var fillsDefaults: Bool { kind == .insert || kind == .replace }

    package init(_ kind: Kind, id: String) {
        self.kind = kind
        self.id = id
    }
}

/// The state of the stored row before the write.
package struct RowState: Hashable, Sendable {
    package var version: Int64
    package var updatedAt: Int64
    package var isDeleted: Bool
    /// Whether the row is visible to the caller.
    package var isVisible: Bool

    package init(version: Int64, updatedAt: Int64, isDeleted: Bool, isVisible: Bool = true) {
        self.version = version
        self.updatedAt = updatedAt
        self.isDeleted = isDeleted
        self.isVisible = isVisible
    }
}

/// The effect of a write on a row, decided from the current state of the row.
package enum WriteDecision: Hashable, Sendable {
    /// A new row is stored.
    case insert
    /// The values are stored in the row, with `deleted` as given.
    case update(deleted: Bool)
    /// The row is removed.
    case remove
    /// Rejected: a row with the id exists. The answer contains the stored row.
    case exists
    /// Rejected: a row with the id exists that the caller may not see. The answer reveals nothing about it.
    case taken
    /// Rejected: the row does not exist.
    case missing
    /// Rejected: the row is a tombstone.
    case gone
    /// Rejected: a member sets a system column to a value that the row does not have.
    case systemChange
    /// Rejected: a condition in the header failed. The answer contains the stored row.
    case preconditionFailed
    /// Rejected: the version in the body is not the stored one. The answer contains the stored row.
    case versionMismatch

    /// The write has to be merged with the changes since this version, and is then decided again.
    case merge(since: Int64)
    /// Dropped, because the stored row wins. The answer contains the row.
    case keepStored
    /// Rejected: a `test` operation of a JSON Patch failed. The response contains the stored row.
    case testFailed
    /// Not executed: the row has changed since the write was decided.
    case outdated
    /// Rejected because of the values to be written; the outcome has the reason.
    case rejected

    /// Whether the write changes the row.
    package var changesRow: Bool {
        switch self {
        case .insert, .update, .remove: true
        case .exists, .taken, .missing, .gone, .systemChange, .preconditionFailed,
            .versionMismatch, .merge, .keepStored, .testFailed, .outdated, .rejected:
            false
        }
    }

    /// Whether the write counts as successful for its caller.
    package var isSuccess: Bool { changesRow || self == .keepStored }
}

extension WriteOperation.Basis {
    /// Creates the basis for a row that was read; nil if the row does not exist.
    init(_ stored: RowState?) {
        self = stored.map { $0.isVisible ? .version($0.version) : .absent } ?? .absent
    }
}

extension WriteOperation {
    /// Returns the effect of this write on a row in this state; nil means that the row does not exist.
    package func decide(stored: RowState?) -> WriteDecision {
        if let basis, basis != Basis(stored) { return .outdated }
        guard let stored else { return kind == .insert ? .insert : .missing }
        guard stored.isVisible else { return kind == .insert ? .taken : .missing }
        if kind == .insert { return .exists }
        if changesSystemValue(of: stored) { return .systemChange }
        if stored.isDeleted && !reachesTombstones { return .gone }
        if let rejection = conflict(with: stored) { return rejection }
        switch kind {
        case .delete: return softDelete ? .update(deleted: true) : .remove
        case .undelete: return .update(deleted: false)
        case .insert, .merge, .replace:
            return .update(deleted: softDelete ? deleted ?? stored.isDeleted : false)
        }
    }

    /// Returns whether the write has a version other than the row's.
    func isStale(against stored: RowState) -> Bool {
        if let tags = conditions.ifMatch { return !tags.matches(stored.version) }
        return expectedVersion.map { $0 != RowVersion.text(stored.version) } ?? false
    }

    /// Returns the effect of a write with failed preconditions or an outdated version in the body.
    private func conflict(with stored: RowState) -> WriteDecision? {
        let isStale = isStale(against: stored)
        let base = conflict == .merge ? mergeBase(for: stored) : nil
        let rule = conflict == .merge && base == nil ? .reject : conflict
        var others = conditions
        if isStale {
            switch rule {
            case .reject: break
            case .serverWins: return kind == .delete ? .preconditionFailed : .keepStored
            case .clientWins, .merge: if others.ifMatch != nil { others.ifMatch = .any }
            }
        }
        let result = others.evaluate(
            version: stored.version,
            updatedAt: stored.updatedAt,
            isRead: false
        )
        if result != .holds { return .preconditionFailed }
        guard isStale else { return nil }
        if let base { return .merge(since: base) }
        return rule == .reject ? .versionMismatch : nil
    }

    /// Returns the write's base version if it can be merged with the later changes.
    private func mergeBase(for stored: RowState) -> Int64? {
        guard kind == .merge || kind == .replace, patch == nil, deleted != true, !stored.isDeleted
        else { return nil }
        guard let tags = conditions.ifMatch else {
            return expectedVersion.flatMap(RowVersion.timestamp)
        }
        guard case .strong(let versions) = tags, versions.count == 1 else { return nil }
        return RowVersion.timestamp(versions[0])
    }

    /// Returns this write with the merged values; it is rejected if the merge failed.
    package func merged(_ changes: [SQLValue?]?) -> WriteOperation {
        var result = self
        result.conflict = .reject
        result.alternatives = [:]
        guard let changes else { return result }
        result.conflict = .clientWins
        result.kind = .merge
        result.values = changes
        result.deleted = nil
        return result
    }

    private var reachesTombstones: Bool {
        switch kind {
        case .insert, .delete: false
        case .undelete: true
        case .merge: includesDeleted || deleted == false
        case .replace: includesDeleted
        }
    }

    private func changesSystemValue(of stored: RowState) -> Bool {
        if claimsOther { return true }
        if let claimedVersion, claimedVersion != RowVersion.text(stored.version) { return true }
        guard let claimedUpdatedAt else { return false }
        // The wire has only milliseconds.
        return claimedUpdatedAt / 1000 != stored.updatedAt / 1000
    }
}
