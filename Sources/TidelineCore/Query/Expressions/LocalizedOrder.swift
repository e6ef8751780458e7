// LocalizedOrder: the order of strings by the rules of a language, identical in memory and in
// SQLite.
//
// Foundation skips the prefix in which two strings are equal apart from case and width, and passes
// only the remaining text to ICU. That is not consistent: the start of a string may decide how its
// end is read ("ch" is one letter in Czech), so three strings can form a cycle. ICU's comparison of
// whole strings is consistent. Each string is therefore prefixed with a different control
// character. The control characters have no weight in ICU's comparison, but they make Foundation
// pass the whole strings.

package import Foundation

/// The order of strings by the rules of a language and region, like that of names in Finder and the
/// Files app.
///
/// Accents, width and letter case matter only if two strings are otherwise equal, and numbers are
/// ordered by value. Two strings are equal only if they are canonically equivalent, as with `==`.
/// The order is total and consistent, so an index can rely on it.
package struct LocalizedOrder: Hashable, Sendable {
    private let locale: Locale
    /// Whether ``PlainTextOrder`` may decide the order of plain strings.
    private let isPlain: Bool

    package init(_ locale: Locale) {
        self.locale = locale
        isPlain = Self.facts(locale).isPlain
    }

    /// Returns a negative number if the first string comes first, 0 if they are equal, and a
    /// positive number otherwise.
    package func compare(_ one: String, _ two: String) -> Int {
        if isPlain {
            let order = one.utf8.withContiguousStorageIfAvailable { first in
                two.utf8.withContiguousStorageIfAvailable { PlainTextOrder.compare(first, $0) }
            }
            if case .some(.some(.some(let order))) = order, order != 0 { return order }
        }
        let order = Self.rules(one, two, locale)
        if order != 0 { return order }
        return one == two ? 0 : one < two ? -1 : 1
    }

    /// Returns the order of two strings in UTF-8.
    package func compare(
        _ one: UnsafeBufferPointer<UInt8>,
        _ two: UnsafeBufferPointer<UInt8>
    ) -> Int {
        if isPlain, let order = PlainTextOrder.compare(one, two), order != 0 { return order }
        if one.elementsEqual(two) { return 0 }
        return compare(String(decoding: one, as: UTF8.self), String(decoding: two, as: UTF8.self))
    }

    /// Returns the order of two values; nil if one of them is not a string.
    package func compare(_ one: Value, _ two: Value) -> Int? {
        guard case .string(let one) = one, case .string(let two) = two else { return nil }
        return compare(one, two)
    }

    private static func rules(_ one: String, _ two: String, _ locale: Locale) -> Int {
        guard isConsistent else {
            let options: String.CompareOptions = [
                .caseInsensitive, .numeric, .widthInsensitive, .forcedOrdering,
            ]
            return one.compare(two, options: options, range: nil, locale: locale).rawValue
        }
        return wholeTexts(one, two, locale)
    }

    private static func wholeTexts(_ one: String, _ two: String, _ locale: Locale) -> Int {
        ("\u{1}" + one).compare("\u{2}" + two, options: .numeric, range: nil, locale: locale)
            .rawValue
    }

    /// Whether this system ignores the control characters, which makes the order consistent.
    ///
    /// Otherwise, the order is that of `localizedStandardCompare`, and no index may rely on it.
    package static let isConsistent: Bool = {
        let locale = Locale(identifier: "en_US")
        let isIgnored = wholeTexts("b", "a", locale) > 0 && wholeTexts("a", "a", locale) == 0
        return isIgnored && wholeTexts("a 10", "a 2", locale) > 0
    }()

    // MARK: - Collation

    /// The name of the collation in SQLite, which contains the locale and the version of the order.
    package var collation: String { Self.prefix + version + "." + locale.identifier }

    /// Creates the order of a collation; nil if the collation is a different one or has a different
    /// version.
    package init?(collation: String) {
        guard collation.hasPrefix(Self.prefix) else { return nil }
        let parts = collation.dropFirst(Self.prefix.count).split(separator: ".", maxSplits: 1)
        guard parts.count == 2 else { return nil }
        self.init(Locale(identifier: String(parts[1])))
        guard version == parts[0] else { return nil }
    }

    package static let prefix = "tideline.localized."

    // MARK: - Version

    /// A string that differs between two systems that order, or may order, some strings
    /// differently.
    ///
    /// Foundation has no version number for its order. This string is a hash of two things: the
    /// version of the operating system, which contains the order, and the order of some sample
    /// strings in the locale.
    package var version: String {
        Self.facts(locale).version
    }

    /// The facts about the order of a locale, determined once per locale.
    private struct Facts {
        var isPlain: Bool
        var version: String
    }

    private static let lock = NSLock()
    // Only read and written while `lock` is held.
    private nonisolated(unsafe) static var known: [String: Facts] = [:]

    private static func facts(_ locale: Locale) -> Facts {
        if let facts = lock.withLock({ known[locale.identifier] }) { return facts }
        let isPlain = PlainTextOrder.agrees(with: locale) { rules($0, $1, locale) }
        let facts = Facts(isPlain: isPlain, version: makeVersion(locale))
        lock.withLock { known[locale.identifier] = facts }
        return facts
    }

    private static func makeVersion(_ locale: Locale) -> String {
        var parts = [
            String(format), ProcessInfo.processInfo.operatingSystemVersionString, locale.identifier,
        ]
        let sorted = probes.sorted { rules($0, $1, locale) < 0 }
        for (one, next) in zip(sorted, sorted.dropFirst()) {
            parts.append("\(one)\(rules(one, next, locale))")
        }
        let hash = SHA256.hash(Array(parts.joined(separator: "\u{0}").utf8))
        return SchemaDocument.hexadecimal(Array(hash.prefix(8)))
    }

    /// The version of this file's comparison; change it together with the comparison.
    private static let format = 1

    /// Strings whose order differs between languages, and between versions of the system's
    /// collation rules.
    private static let probes = [
        "", " ", "-", "_", "'", ".", "a", "A", "a b", "ab", "a-b", "ä", "Ä", "ae", "af", "å", "aa",
        "az", "æ",
        "b", "c", "ch", "cz", "č", "d", "đ", "dz", "e", "é", "ê", "f", "ﬁ", "g", "h", "i", "ı", "İ",
        "I", "j", "l",
        "ll", "lj", "ł", "n", "ñ", "ng", "nj", "o", "ö", "ø", "œ", "p", "r", "s", "ß", "ss", "st",
        "š", "t", "þ",
        "u", "ü", "v", "w", "x", "y", "z", "ž", "1", "2", "10", "1a", "α", "ά", "β", "а", "б", "е",
        "ё", "й", "я", "א",
        "ا", "ب", "ก", "เก", "क", "か", "が", "カ", "ｶ", "一", "丁", "人", "阿", "字", "漢", "中", "가", "한",
        "😀",
    ]
}
