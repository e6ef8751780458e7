// TableSearch: the search index of a table on a device.

/// The columns of a table whose words a device can search.
public struct TableSearch: Hashable, Sendable {
    /// The names of the columns, all of which contain text.
    public var columns: [String]
    /// The weight of each column in the rank of a match; if empty, all columns have the same
    /// weight.
    public var weights: [Double]
    /// The lengths of word prefixes that are indexed separately.
    public var prefixLengths: [Int]

    /// Creates a search index.
    public init(columns: [String], weights: [Double] = [], prefixLengths: [Int] = []) {
        self.columns = columns
        self.weights = weights
        self.prefixLengths = prefixLengths
    }
}
