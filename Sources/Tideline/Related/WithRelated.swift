// WithRelated: a record together with its related records, the result of a RelatedQuery.

/// A record with its related records, as a ``RelatedQuery`` returns it.
///
/// ``related`` has one value for each `including`: an array of children, or an optional parent. With one `including`,
/// it is that value; with several, a tuple of them in the order of the calls.
@dynamicMemberLookup
public struct WithRelated<Record: SyncRecord, each Related: Sendable>: Sendable, Identifiable {
    /// The record.
    public let record: Record
    /// The related records.
    public let related: (repeat each Related)

    /// Creates a result, for tests and previews.
    public init(_ record: Record, _ related: repeat each Related) {
        self.record = record
        self.related = (repeat each related)
    }

    /// The id of the record.
    public var id: String { record.id }

    /// A property of the record.
    public subscript<Content>(dynamicMember path: KeyPath<Record, Content>) -> Content {
        record[keyPath: path]
    }
}

extension WithRelated: Equatable where Record: Equatable, repeat each Related: Equatable {
    /// Whether the records and all related records are equal.
    public static func == (left: WithRelated, right: WithRelated) -> Bool {
        guard left.record == right.record else { return false }
        for (one, two) in repeat (each left.related, each right.related) {
            if one != two { return false }
        }
        return true
    }
}

extension WithRelated: Hashable where Record: Hashable, repeat each Related: Hashable {
    /// Hashes the record and its related records.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(record)
        for related in repeat each related { hasher.combine(related) }
    }
}
