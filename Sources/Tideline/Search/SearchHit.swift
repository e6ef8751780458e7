// SearchHit: a record that a search found, with the ranges of the matches in its columns.

import TidelineCore

/// A record that a search found.
public struct SearchHit<Record: Sendable>: Sendable {
    /// The record.
    public let record: Record

    /// The quality of the match: values are negative, and the smallest value is the best match.
    ///
    /// The value is a BM25 score, which can be compared only within one result. It is 0 if the search has no word to
    /// match, or if more than 3,000 records match, in which case the records that the device stored last come first.
    public let rank: Double

    private let excerpts: [String: SearchExcerpts]
    private let column: @Sendable (AnyKeyPath) throws -> String

    init(
        _ record: Record,
        _ row: SearchedRow,
        column: @escaping @Sendable (AnyKeyPath) throws -> String
    ) {
        self.record = record
        rank = row.rank
        excerpts = row.excerpts
        self.column = column
    }

    /// Returns the part of a property's text with the most matches, at most 32 words long.
    ///
    /// `…` stands for the text before and after this part.
    ///
    /// - Returns: Nil if the property is not in the search index, or is nil.
    public func snippet(_ path: PartialKeyPath<Record>) -> SearchExcerpt? {
        (try? column(path)).flatMap { snippet(column: $0) }
    }

    /// Returns the whole text of a property with the ranges of all matches.
    ///
    /// - Returns: Nil if the property is not in the search index, or is nil.
    public func highlight(_ path: PartialKeyPath<Record>) -> SearchExcerpt? {
        (try? column(path)).flatMap { highlight(column: $0) }
    }

    /// Returns the part of a column's text with the most matches, like ``snippet(_:)``.
    public func snippet(column: String) -> SearchExcerpt? { excerpts[column]?.snippet }

    /// Returns the whole text of a column with the ranges of all matches, like ``highlight(_:)``.
    public func highlight(column: String) -> SearchExcerpt? { excerpts[column]?.whole }
}

/// Text with the ranges of the matches of a search.
///
/// ```swift
/// func words(_ excerpt: SearchExcerpt) -> [Substring] { excerpt.matches.map { excerpt.text[$0] } }
/// ```
public struct SearchExcerpt: Hashable, Sendable {
    /// The text.
    public let text: String
    /// The ranges of the matches in the text, in order.
    public let matches: [Range<String.Index>]

    /// Creates an excerpt from text in which the matches are marked.
    package init(marked: String) {
        var text = String.UnicodeScalarView()
        var offsets: [Int] = []
        var count = 0
        for scalar in marked.unicodeScalars {
            if scalar == Self.start || scalar == Self.end {
                // The markers alternate, unless the text itself contains a marker.
                if (scalar == Self.start) == offsets.count.isMultiple(of: 2) {
                    offsets.append(count)
                }
            } else {
                text.append(scalar)
                count += UTF8.width(scalar)
            }
        }
        let plain = String(text)
        self.text = plain
        matches = stride(from: 0, to: offsets.count - 1, by: 2).map { index in
            let utf8 = plain.utf8
            let start = utf8.index(utf8.startIndex, offsetBy: offsets[index])
            return start..<utf8.index(start, offsetBy: offsets[index + 1] - offsets[index])
        }
    }

    /// The markers of a match: two private-use characters, which are removed from the text.
    package static let start: Unicode.Scalar = "\u{10FFFC}"
    package static let end: Unicode.Scalar = "\u{10FFFD}"
}

/// A row that a search found, as a store returns it.
///
/// It has no public members, and only ``SQLiteStore`` creates it. A store that wraps another store returns the rows of
/// that store from ``LocalStoreReader/search(_:in:)``.
public struct SearchedRow: Sendable {
    package internal(set) var row: Row
    var rank: Double
    var excerpts: [String: SearchExcerpts]
}

/// The excerpts from the text of one column.
struct SearchExcerpts: Hashable, Sendable {
    var snippet: SearchExcerpt
    var whole: SearchExcerpt
}
