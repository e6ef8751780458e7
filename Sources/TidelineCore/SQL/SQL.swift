// SQL: statements that cannot be built from a plain string.
//
//     let sql: SQL = "SELECT 1 FROM \(Identifier(table)) WHERE \(Identifier("id")) = \(.text(id))"
//
// Placeholders are written only when the statement is rendered. Parts can therefore be joined in
// any order, and the same value serves both dialects (`?`, `$1`).

package import Foundation

/// A value as a database stores it.
package enum SQLValue: Hashable, Sendable {
    case null
    case integer(Int64)
    case real(Double)
    case text(String)
    case blob(Data)
    /// An expression that a server function evaluates; see `FilterProgram`.
    case program(FilterProgram)
}

/// The name of a table or a column.
package struct Identifier: Hashable, Sendable {
    package let name: String

    package init(_ name: String) {
        self.name = name
    }

    /// The name in double quotes, with embedded double quotes doubled.
    package var quoted: String {
        guard name.utf8.contains(UInt8(ascii: "\"")) else { return "\"\(name)\"" }
        let parts = name.split(separator: "\"", omittingEmptySubsequences: false)
        return "\"\(parts.joined(separator: "\"\""))\""
    }
}

/// A statement, or a part of one, with its bound values.
package struct SQL: Hashable, Sendable, ExpressibleByStringInterpolation {
    /// The statement without its placeholders.
    private var text = ""
    /// The bound values, in the order of the placeholders.
    package private(set) var bindings: [SQLValue] = []
    /// The byte position of each placeholder in the statement.
    private var places: [Int] = []

    package init() {}

    package init(stringLiteral text: String) {
        append(text)
    }

    package init(stringInterpolation: StringInterpolation) {
        self = stringInterpolation.sql
    }

    package struct StringInterpolation: StringInterpolationProtocol {
        var sql = SQL()

        package init(literalCapacity: Int, interpolationCount: Int) {
            sql.text.reserveCapacity(literalCapacity + 16 * interpolationCount)
        }

        package mutating func appendLiteral(_ literal: String) { sql.append(literal) }

        /// Appends a bound value.
        package mutating func appendInterpolation(_ value: SQLValue) {
            sql.places.append(sql.text.utf8.count)
            sql.bindings.append(value)
        }

        /// Appends a quoted name.
        package mutating func appendInterpolation(_ identifier: Identifier) {
            sql.append(identifier.quoted)
        }

        /// Appends a part together with its bound values.
        package mutating func appendInterpolation(_ part: SQL) { sql.append(part) }

        /// Appends a count or a position as digits.
        package mutating func appendInterpolation(_ number: Int) { sql.append(String(number)) }
    }

    /// Creates SQL from a string that a dialect built from its keywords and quoted names.
    package init(verbatim text: String) {
        append(text)
    }

    package mutating func append(_ part: SQL) {
        let end = text.utf8.count
        text += part.text
        for place in part.places { places.append(end + place) }
        bindings += part.bindings
    }

    private mutating func append(_ text: String) { self.text += text }

    package static func + (left: SQL, right: SQL) -> SQL {
        var result = left
        result.append(right)
        return result
    }

    package var isEmpty: Bool { text.isEmpty && bindings.isEmpty }

    /// Returns the statement with the dialect's placeholders.
    package func text(for dialect: SQLDialect) -> String {
        guard !places.isEmpty else { return text }
        let bytes = text.utf8
        var result = ""
        result.reserveCapacity(bytes.count + places.count * 4)
        var start = bytes.startIndex
        for (number, place) in places.enumerated() {
            let end = bytes.index(bytes.startIndex, offsetBy: place)
            result += text[start..<end]
            result += dialect.placeholder(number + 1)
            start = end
        }
        return result + text[start...]
    }
}

extension Sequence where Element == SQL {
    /// Returns the parts joined with the separator.
    package func joined(separator: SQL) -> SQL {
        var result = SQL()
        for part in self {
            if !result.isEmpty { result.append(separator) }
            result.append(part)
        }
        return result
    }
}
