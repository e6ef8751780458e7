// SortTerm: a sort key of an order, given by key path or by name and resolved when it is made.

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

    private init(ascending: Bool, _ expression: () throws -> QueryExpression) {
        do {
            key = .success(SortKey(try expression(), ascending: ascending))
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

    /// Sorts by a column's name, in ascending order.
    public static func ascending(_ column: String) -> SortTerm {
        SortTerm(ascending: true) { QueryExpression(.field(column)) }
    }

    /// Sorts by a column's name, in descending order.
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
