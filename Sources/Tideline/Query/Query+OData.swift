// Query from OData text: reads a URL's query component.

import TidelineCore

extension Query {
    /// Creates a query from an OData v4 query string, the part of a URL that follows the question mark.
    ///
    /// ```swift
    /// let open = try Query<TodoItem>(odata: "$filter=complete eq false&$orderby=text")
    /// ```
    ///
    /// Supported options are `$filter`, `$orderby`, `$top`, `$skip`, `$select` and `$count`. `__includedeleted`
    /// asks for tombstones, and names without `$` are sent to the server unchanged. The text may be
    /// percent-encoded: write a literal `%` as `%25`. A plus sign is not a space, and `&` within quotes does
    /// not end an option.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery`, which names the option and the position
    ///   in its decoded text.
    public init(odata text: String) throws {
        self.init(try ODataText(text).query())
    }
}

/// A parser for the options of a query string.
private struct ODataText {
    private var options: [(name: String, value: String)] = []

    init(_ text: String) throws {
        let text = text.hasPrefix("?") ? text.dropFirst() : text[...]
        for part in Self.parts(text) where !part.isEmpty {
            let pair = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let name = try Self.decoded(pair[0], in: "the name of an option")
            let value = try Self.decoded(pair.count > 1 ? pair[1] : "", in: name)
            guard !options.contains(where: { $0.name == name }) else {
                throw Self.failure(name, "it occurs twice", at: 0)
            }
            options.append((name, value))
        }
    }

    func query() throws -> TableQuery {
        var query = TableQuery()
        for (name, value) in options {
            do {
                try Self.read(name, value, into: &query)
            } catch let error as ODataError {
                throw Self.failure(name, error.message, at: error.position, cause: error)
            }
        }
        return query
    }

    private static func read(
        _ name: String,
        _ value: String,
        into query: inout TableQuery
    ) throws {
        switch name {
        case "$filter": query.filter = Filter(try ODataParser.filter(value, dialect: .v4))
        case "$orderby": query.order = try ODataParser.orderBy(value, dialect: .v4)
        case "$select": query.select = try ODataParser.select(value, dialect: .v4)
        case "$top": query.limit = try number(value, name)
        case "$skip": query.offset = try number(value, name)
        case "$count": query.includesTotalCount = try boolean(value, name)
        case _ where name.lowercased() == "__includedeleted":
            query.includesDeleted = try boolean(value, name)
        case _ where name.hasPrefix("$"):
            throw failure(
                name,
                "it is not supported; use $filter, $orderby, $top, $skip, $select or $count",
                at: 0
            )
        default: query.parameters[name] = value
        }
    }

    private static func number(_ text: String, _ name: String) throws -> Int {
        guard text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }), let number = Int(text) else {
            throw failure(name, "a whole number of at least 0 is expected", at: 0)
        }
        return number
    }

    private static func boolean(_ text: String, _ name: String) throws -> Bool {
        guard let value = Bool(text.lowercased()) else {
            throw failure(name, "true or false is expected", at: 0)
        }
        return value
    }

    /// Returns the parts between each `&` that is not within quotes.
    private static func parts(_ text: Substring) -> [Substring] {
        var isQuoted = false
        return text.split(omittingEmptySubsequences: false) { character in
            if character == "'" { isQuoted.toggle() }
            return character == "&" && !isQuoted
        }
    }

    private static func decoded(_ text: Substring, in name: String) throws -> String {
        guard text.utf8.contains(UInt8(ascii: "%")) else { return String(text) }
        var bytes: [UInt8] = []
        var rest = text.utf8
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            let digits = rest.prefix(2)
            guard digits.count == 2, digits.allSatisfy(isHexDigit),
                let code = UInt8(Substring(digits), radix: 16)
            else {
                throw failure(name, "a literal '%' must be written as '%25'", at: bytes.count)
            }
            bytes.append(code)
            rest = rest.dropFirst(2)
        }
        guard let result = String(validating: bytes, as: UTF8.self) else {
            throw failure(name, "it is not UTF-8 when decoded", at: 0)
        }
        return result
    }

    private static func isHexDigit(_ byte: UInt8) -> Bool {
        Unicode.Scalar(byte).properties.isASCIIHexDigit
    }

    private static func failure(
        _ name: String,
        _ message: String,
        at position: Int,
        cause: ODataError? = nil
    ) -> SyncError {
        var error = SyncError.unsupportedQuery("\(name): \(message), at byte \(position).")
        error.cause = cause
        return error
    }
}
