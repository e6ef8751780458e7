// SearchIndex: the properties of a model whose words can be searched for.

import TidelineCore

/// The properties of a model whose words can be searched for on the device.
///
/// ```swift
/// struct Job: SyncRecord {
///     var id = UUID().uuidString.lowercased()
///     var title = ""
///     var notes: String?
///
///     static let search = SearchIndex(\Job.title, \Job.notes)
/// }
/// ```
///
/// ``SQLiteStore`` keeps the index current in each transaction that changes rows. See <doc:Search>.
public struct SearchIndex<Record>: Sendable {
    private let paths: [PropertyPath<Record>]
    private let weights: [Double]
    private let prefixLengths: [Int]

    /// No search index.
    public static var none: SearchIndex { SearchIndex(paths: [], weights: [], prefixLengths: []) }

    /// Declares the properties, which must be of type `String` or `String?`.
    ///
    /// - Parameters:
    ///   - paths: The properties.
    ///   - weights: The weight of a match in each property for the rank; without weights, all properties count
    ///     the same.
    ///   - prefixLengths: The lengths of word prefixes, in Unicode scalars, that get their own index, such as `[2, 3]`.
    ///     A search for `ab*` or `abc*` then does not read the entries of all words with that prefix. Each length makes
    ///     the index and every change to a row more expensive.
    public init(
        _ paths: PropertyPath<Record>...,
        weights: [Double] = [],
        prefixLengths: [Int] = []
    ) {
        self.init(paths: paths, weights: weights, prefixLengths: prefixLengths)
    }

    private init(
        paths: [PropertyPath<Record>],
        weights: [Double],
        prefixLengths: [Int]
    ) {
        self.paths = paths
        self.weights = weights
        self.prefixLengths = prefixLengths
    }
}

extension SearchIndex {
    /// The maximum number of columns of an index, and of prefix lengths.
    private static var columnsMax: Int { 32 }
    /// The maximum length of an indexed word prefix; SQLite's own limit is 999.
    private static var prefixLengthMax: Int { 16 }

    /// Returns the index with the names of its columns; nil if no property is declared.
    ///
    /// - Throws: ``SyncError`` with code `invalidModel`, or `unsupportedQuery` for a path that has no column.
    func table(
        model: String,
        _ schema: TableSchema,
        column: (AnyKeyPath) throws -> String
    ) throws -> TableSearch? {
        guard !paths.isEmpty else { return nil }
        let columns = try paths.map { try column($0) }
        for name in columns {
            guard let type = schema.column(named: name)?.type, CellKind(type) == .text else {
                throw SyncError.invalidModel(
                    model,
                    "the search index names '\(name)', which contains no text. Remove it from 'search'."
                )
            }
        }
        guard columns.count <= Self.columnsMax, Set(columns).count == columns.count else {
            throw SyncError.invalidModel(
                model,
                """
                the search index names a property twice, or more than \(Self.columnsMax) properties. Name each once.
                """
            )
        }
        let isWeighted = weights.allSatisfy { $0.isFinite && $0 >= 0 }
        guard isWeighted, weights.isEmpty || weights.count == columns.count else {
            throw SyncError.invalidModel(
                model,
                """
                the search index must have no weights, or one for each property, each at least 0. Change 'weights'.
                """
            )
        }
        let lengths = Set(prefixLengths).sorted()
        guard lengths.allSatisfy({ 1...Self.prefixLengthMax ~= $0 }) else {
            throw SyncError.invalidModel(
                model,
                """
                the search index has a prefix length outside 1 to \(Self.prefixLengthMax). Change \
                'prefixLengths'.
                """
            )
        }
        return TableSearch(columns: columns, weights: weights, prefixLengths: lengths)
    }
}
