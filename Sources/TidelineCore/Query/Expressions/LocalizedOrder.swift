// LocalizedOrder: the order of texts by the rules of a language, the same one in memory and in SQLite.

package import Foundation

/// The order of texts by the rules of a language and region, as Finder and the Files app sort names.
///
/// Accents, width and letter case only decide between texts that are equal otherwise, and numbers are ordered by their
/// value. It is the order of `localizedStandardCompare`.
package struct LocalizedOrder: Hashable, Sendable {
    private let locale: Locale

    package init(_ locale: Locale) { self.locale = locale }

    /// Returns a negative number, 0 or a positive number.
    package func compare(_ one: String, _ two: String) -> Int {
        one.compare(two, options: Self.options, range: nil, locale: locale).rawValue
    }

    private static let options: String.CompareOptions = [
        .caseInsensitive, .numeric, .widthInsensitive, .forcedOrdering,
    ]

    // MARK: - Collation

    /// The name of the collation in SQLite, which names the locale.
    package var collation: String { Self.prefix + locale.identifier }

    /// Returns the order of a collation; nil if it is another collation.
    package init?(collation: String) {
        guard collation.hasPrefix(Self.prefix) else { return nil }
        self.init(Locale(identifier: String(collation.dropFirst(Self.prefix.count))))
    }

    private static let prefix = "tideline.localized."
}
