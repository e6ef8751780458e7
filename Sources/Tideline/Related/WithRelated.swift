// WithRelated: a record together with its related records, the result of a RelatedQuery.

/// A record with its related records, as a ``RelatedQuery`` returns it.
///
/// ``related`` is an array of children, or an optional parent. With more than one `including`, it is a ``RelatedPair``.
@dynamicMemberLookup
public struct WithRelated<Record: SyncRecord, Related: Sendable>: Sendable, Identifiable {
    /// The record.
    public var record: Record
    /// The related records.
    public var related: Related

    /// Creates a result, for tests and previews.
    public init(_ record: Record, _ related: Related) {
        (self.record, self.related) = (record, related)
    }

    /// The id of the record.
    public var id: String { record.id }

    /// A property of the record.
    public subscript<Content>(dynamicMember path: KeyPath<Record, Content>) -> Content {
        record[keyPath: path]
    }
}

extension WithRelated: Equatable where Record: Equatable, Related: Equatable {}
extension WithRelated: Hashable where Record: Hashable, Related: Hashable {}

/// The related records of two kinds, the result of a ``RelatedQuery`` with more than one `including`.
///
/// With three calls of `including`, `first` is itself a pair.
public struct RelatedPair<First: Sendable, Second: Sendable>: Sendable {
    /// The records that were included first.
    public var first: First
    /// The records of the last `including`.
    public var second: Second

    /// Creates a pair, for tests and previews.
    public init(_ first: First, _ second: Second) { (self.first, self.second) = (first, second) }
}

extension RelatedPair: Equatable where First: Equatable, Second: Equatable {}
extension RelatedPair: Hashable where First: Hashable, Second: Hashable {}
