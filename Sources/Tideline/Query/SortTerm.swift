// SortTerm: a sort key of an order, given by key path or by name and resolved when it is created.

public import Foundation
import TidelineCore

/// A sort key for the order of a read.
///
/// ```swift
/// try await todos.read(sortedBy: [.descending(\.rank), .ascending(\.text)])
/// ```
///
/// Every column type can be sorted. In ascending order, nulls come first, false comes before true, and strings
/// are ordered by Unicode scalar values. On the device, a property that cannot be nil counts as its default if
/// the row has no value. Ties are broken by `id`.
public struct SortTerm<Record>: Sendable {
    private let key: Result<SortKey, SyncError>

    /// Sorts by how well a record matches the search of the query, the best match first.
    ///
    /// The query must use `matching`. Such a query is sorted by rank unless it has another order. See <doc:Search>.
    public static var rank: SortTerm {
        SortTerm(ascending: true) { QueryExpression(.search(.rank)) }
    }

    private init(
        ascending: Bool,
        _ order: TextOrder = .scalars,
        _ expression: () throws -> QueryExpression
    ) {
        do {
            key = .success(
                SortKey(try expression(), ascending: ascending, localized: order.localized)
            )
        } catch {
            key = .failure(
                error as? SyncError ?? SyncError(.unsupportedQuery, "\(error)", cause: error)
            )
        }
    }

    /// Sorts by a property, in ascending order.
    ///
    /// It may be a property of a nested value: `.ascending(\.address.city)`.
    public static func ascending(_ path: PartialKeyPath<Record>) -> SortTerm
    where Record: SyncRecord {
        SortTerm(ascending: true) { try RecordSchema.sortKey(for: path) }
    }

    /// Sorts by a property, in descending order.
    ///
    /// It may be a property of a nested value: `.descending(\.address.city)`.
    public static func descending(_ path: PartialKeyPath<Record>) -> SortTerm
    where Record: SyncRecord {
        SortTerm(ascending: false) { try RecordSchema.sortKey(for: path) }
    }

    /// Sorts by a text property in ascending order, comparing strings as `order` does.
    ///
    /// It may be a property of a nested value: `.ascending(\.address.city, .localized)`. Only the device supports it: a
    /// ``RemoteTable`` throws ``SyncError`` with code `unsupportedQuery`.
    public static func ascending(_ path: PartialKeyPath<Record>, _ order: TextOrder) -> SortTerm
    where Record: SyncRecord {
        SortTerm(ascending: true, order) { try RecordSchema.sortKey(for: path) }
    }

    /// Sorts by a text property in descending order, comparing strings as `order` does.
    ///
    /// See ``ascending(_:_:)-(PartialKeyPath<Record>,_)``.
    public static func descending(_ path: PartialKeyPath<Record>, _ order: TextOrder) -> SortTerm
    where Record: SyncRecord {
        SortTerm(ascending: false, order) { try RecordSchema.sortKey(for: path) }
    }

    /// Sorts by the text column with this name in ascending order, comparing strings as `order` does.
    public static func ascending(_ column: String, _ order: TextOrder) -> SortTerm {
        SortTerm(ascending: true, order) { QueryExpression(.field(column)) }
    }

    /// Sorts by the text column with this name in descending order, comparing strings as `order` does.
    public static func descending(_ column: String, _ order: TextOrder) -> SortTerm {
        SortTerm(ascending: false, order) { QueryExpression(.field(column)) }
    }

    /// Sorts by the column with this name, in ascending order.
    public static func ascending(_ column: String) -> SortTerm {
        SortTerm(ascending: true) { QueryExpression(.field(column)) }
    }

    /// Sorts by the column with this name, in descending order.
    public static func descending(_ column: String) -> SortTerm {
        SortTerm(ascending: false) { QueryExpression(.field(column)) }
    }

    /// Creates a term with the key path and direction of a sort descriptor; its comparator is ignored.
    public init(_ descriptor: SortDescriptor<Record>) where Record: SyncRecord {
        self.init(ascending: descriptor.order == .forward) {
            guard let path = descriptor.keyPath else {
                throw SyncError.unsupportedQuery(
                    "a sort descriptor without key path. Use .ascending(_:) or .descending(_:)."
                )
            }
            return try RecordSchema.sortKey(for: path)
        }
    }

    /// Returns the sort key for a store or a server.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` if the key path has no column.
    package func sortKey() throws -> SortKey { try key.get() }
}
