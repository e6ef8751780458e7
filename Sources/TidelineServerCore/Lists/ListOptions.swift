// ListOptions: parses query options.
//
// It knows no table; ListPlan checks the options against one.

/// The query options of a list, as strings and checked numbers.
package struct ListOptions: Sendable {
    package var filter: String?
    package var order: String?
    package var select: String?
    package var token: String?
    package var deltaToken: String?
    package var top: Int?
    package var skip = 0
    package var wantsCount = false

    /// Parses the options; unknown, repeated and empty options are rejected with 400.
    package init(_ parameters: QueryParameters, generation: Generation) throws {
        var seen: Set<String> = []
        for parameter in parameters.all where parameter.name.utf8.first == UInt8(ascii: "$") {
            let name = parameter.name.lowercased()
            let isKnown =
                Self.known.contains(name) || name == "$deltatoken" && generation == .datasync
            guard isKnown else { throw Self.unknown(parameter.name) }
            guard seen.insert(name).inserted else {
                throw ServerError.badRequest("Option '\(name)' occurs twice.")
            }
            let value = parameter.value
            guard !value.isEmpty else {
                throw ServerError.badRequest("Option '\(name)' has no value.")
            }
            switch name {
            case "$filter": filter = value
            case "$orderby": order = value
            case "$select": select = value
            case "$skiptoken": token = value
            case "$deltatoken": deltaToken = value
            case "$top": top = try Self.number(value, name)
            case "$skip": skip = try Self.number(value, name)
            case "$count":
                wantsCount = try Self.count(value, generation) || wantsCount
            default:
                wantsCount = try Self.inlineCount(value) || wantsCount
            }
        }
    }

    private static let known: Set<String> = [
        "$filter", "$orderby", "$select", "$top", "$skip", "$count", "$inlinecount", "$skiptoken",
    ]

    private static func unknown(_ name: String) -> ServerError {
        let shown = name.utf8.count <= 40 ? "Option '\(name)'" : "An option"
        return .badRequest(
            "\(shown) is not supported; allowed are $filter, $orderby, $select, $top, $skip, "
                + "$count and $inlinecount."
        )
    }

    private static func number(_ text: String, _ name: String) throws -> Int {
        guard text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }), let value = Int(text) else {
            throw ServerError.badRequest("Option '\(name)' must be a non-negative integer.")
        }
        return value
    }

    /// Parses the option that requests a count.
    ///
    /// For datasync callers, any value requests a count, as in the original servers (datasync-protocol.md 5.1).
    private static func count(_ value: String, _ generation: Generation) throws -> Bool {
        if generation == .datasync || ASCII.equal(value, "true") { return true }
        if ASCII.equal(value, "false") { return false }
        throw ServerError.badRequest("Option '$count' must be true or false.")
    }

    private static func inlineCount(_ value: String) throws -> Bool {
        if ASCII.equal(value, "allpages") { return true }
        if ASCII.equal(value, "none") { return false }
        throw ServerError.badRequest("Option '$inlinecount' must be allpages or none.")
    }
}
