// TextOrder: the orders of strings that a query can ask for.

public import Foundation
import TidelineCore

/// An order of strings, for the sort terms of a query.
///
/// ```swift
/// let sorted = try await todos.read(sortedBy: [.ascending(\.text, .localized)])
/// ```
public struct TextOrder: Hashable, Sendable {
    let localized: LocalizedOrder?

    /// The order by Unicode scalar values, which is the same on every device and on the server.
    public static let scalars = TextOrder(localized: nil)

    /// The order of the user's language and region, like that of names in Finder and the Files app: "Ärger" is next to
    /// "apfel" in German and after "zeta" in Swedish, and "Job 2" comes before "Job 10".
    ///
    /// Only the device supports this order. A ``LocalizedIndex`` makes it fast. Strings that are canonically
    /// equivalent, such as two spellings of "é", are equal, and the next sort term orders them.
    public static var localized: TextOrder { localized(.current) }

    /// The order by the rules of a locale.
    ///
    /// ```swift
    /// let swedish = try await todos.read(
    ///     sortedBy: [.ascending(\.text, .localized(Locale(identifier: "sv_SE")))]
    /// )
    /// ```
    public static func localized(_ locale: Locale) -> TextOrder {
        TextOrder(localized: LocalizedOrder(locale))
    }
}
