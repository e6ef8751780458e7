// TableSearch: the search index of a table on a device.

/// The columns of a table whose words can be searched for on a device.
public struct TableSearch: Hashable, Sendable {
    /// The names of the columns, all of which hold text.
    public var columns: [String]
    /// The weight of each column in the rank of a match; without weights, all columns weigh the same.
    public var weights: [Double]
    /// The lengths of word prefixes that get an index of their own.
    public var prefixLengths: [Int]

    /// Creates a search index.
    public init(columns: [String], weights: [Double] = [], prefixLengths: [Int] = []) {
        self.columns = columns
        self.weights = weights
        self.prefixLengths = prefixLengths
    }
}
