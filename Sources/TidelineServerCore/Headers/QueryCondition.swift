// QueryCondition: the condition of a write as a query parameter, for proxies that drop `If-Match`.

import TidelineCore

/// The parameter `__ifMatch=TAG` in the query of a write, which replaces a missing `If-Match`.
enum QueryCondition {
    /// The parameter's name in lower case; the query may have it in any letter case.
    private static let name: StaticString = "__ifmatch"

    /// Removes the parameter from a query.
    ///
    /// - Parameter query: The query as sent, without the question mark.
    /// - Returns: The value that `If-Match` would have; nil if there is no such parameter.
    /// - Throws: ``ServerError`` with 400 if it is not properly percent-encoded.
    static func remove(from query: inout String) throws -> String? {
        let parts = query.split(separator: "&", omittingEmptySubsequences: false)
        let found = parts.filter(isCondition)
        guard !found.isEmpty else { return nil }
        query = parts.filter { !isCondition($0) }.joined(separator: "&")
        let values = try QueryParameters(found.joined(separator: "&")).all.map(\.value)
        return values.joined(separator: ", ")
    }

    private static func isCondition(_ part: Substring) -> Bool {
        ASCII.equal(String(part.prefix { $0 != "=" }), name)
    }
}
