// SortTerm: one key of an order, by key path or by name, resolved where it is made.

public import Foundation
import TidelineCore

/// One key of the order of a read.
///
/// ```swift
/// try await todos.read(sortedBy: [.descending(\.rank), .ascending(\.text)])
/// ```
///
/// Every column type can be ordered by: nulls come first in ascending order, false before true,
/// texts by Unicode scalar values. On the device a property that may not be nil counts as its default
/// where a row has no value. Ties are broken by `id`.
public struct SortTerm<Record>: Sendable {
    private let key: Result<SortKey, SyncError>

    private init(ascending: Bool, _ column: () throws -> String) {
        do {
            key = .success(SortKey(QueryExpression(.field(try column())), ascending: ascending))
        } catch {
            key = .failure(
                error as? SyncError ?? SyncError(.unsupportedQuery, "\(error)", cause: error)
            )
        }
    }

    /// Small values first.
    public static func ascending(_ path: PartialKeyPath<Record>) -> SortTerm
    where Record: SyncRecord {
        SortTerm(ascending: true) { try RecordSchema.of(Record.self).column(for: path) }
    }

    /// Great values first.
    public static func descending(_ path: PartialKeyPath<Record>) -> SortTerm
    where Record: SyncRecord {
        SortTerm(ascending: false) { try RecordSchema.of(Record.self).column(for: path) }
    }

    /// Small values of a column first, by its name.
    public static func ascending(_ column: String) -> SortTerm {
        SortTerm(ascending: true) { column }
    }

    /// Great values of a column first, by its name.
    public static func descending(_ column: String) -> SortTerm {
        SortTerm(ascending: false) { column }
    }

    /// Key path and direction of a descriptor; how it compares is not taken.
    public init(_ descriptor: SortDescriptor<Record>) where Record: SyncRecord {
        self.init(ascending: descriptor.order == .forward) {
            guard let path = descriptor.keyPath else {
                throw SyncError.unsupportedQuery(
                    "a sort descriptor without key path. Use .ascending(_:) or .descending(_:)."
                )
            }
            return try RecordSchema.of(Record.self).column(for: path)
        }
    }

    /// The key for a store or a server.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` when the key path has no column.
    package func sortKey() throws -> SortKey { try key.get() }
}
