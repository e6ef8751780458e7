// LocalizedIndex: an index that a model declares for queries that are sorted with `.localized`.

import TidelineCore

/// An index for queries that are sorted by a text property with `.localized`.
///
/// ```swift
/// struct Customer: SyncRecord {
///     var id = UUID().uuidString.lowercased()
///     var city = ""
///     var name = ""
///
///     static let localizedIndexes = [LocalizedIndex(\Customer.name)]
/// }
/// ```
///
/// ``SQLiteStore`` uses the index for queries whose order ends with the text property, such as
/// `sortedBy: [.ascending(\.name, .localized)]`, and reads only the rows of the result if the query
/// has a limit. The store keeps the index current in each transaction that changes rows, and
/// rebuilds it if the order differs, for example after a system update or a change of language.
/// Each index makes every change to a row slower.
///
/// If an index does not fit its properties, opening the store throws ``SyncError`` with code `invalidModel`.
public struct LocalizedIndex<Record>: Sendable {
    private let paths: [PropertyPath<Record>]
    private let order: TextOrder

    /// Declares an index of properties, the last of which is the text.
    ///
    /// A query can use the index if its condition compares the properties before the text with `==`, or if
    /// these properties come first in its order, in the same direction. The last property must be of type
    /// `String` or `String?`.
    ///
    /// - Parameters:
    ///   - paths: The properties.
    ///   - order: The order of the strings; by default, the order of the user's language and region when the model is
    ///     first used.
    public init(
        _ paths: PropertyPath<Record>...,
        order: TextOrder = .localized
    ) {
        self.paths = paths
        self.order = order
    }
}

extension LocalizedIndex {
    /// The maximum number of columns of an index.
    private static var columnsMax: Int { 8 }

    /// Returns the index with the names of its columns.
    ///
    /// - Throws: ``SyncError`` with code `invalidModel`, or `unsupportedQuery` for a path that has no column.
    func table(
        model: String,
        _ schema: TableSchema,
        column: (AnyKeyPath) throws -> String
    ) throws -> TableOrderIndex {
        let columns = try paths.map { try column($0) }
        guard let text = columns.last, let localized = order.localized,
            schema.column(named: text)?.type == .string
        else {
            throw SyncError.invalidModel(
                model,
                """
                a localized index needs a localized order, and a string as its last property. Change \
                'localizedIndexes', or use 'indexes'.
                """
            )
        }
        let isKey = columns.contains(SystemColumn.id)
        guard !isKey, columns.count <= Self.columnsMax, Set(columns).count == columns.count else {
            throw SyncError.invalidModel(
                model,
                """
                a localized index names 'id', a property twice, or more than \(Self.columnsMax) properties. Name each \
                once; 'id' is added automatically.
                """
            )
        }
        return TableOrderIndex(columns: columns, order: localized)
    }
}
