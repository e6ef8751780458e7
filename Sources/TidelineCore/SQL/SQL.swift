// SQL: a statement, or a part of one, with its bound values. A plain string cannot get in.
//
//     let sql: SQL = "SELECT 1 FROM \(Identifier(table)) WHERE \(Identifier("id")) = \(.text(id))"
//
// Placeholders get their numbers when the statement is rendered, so that parts can be joined in
// any order and the same value serves both dialects (`?1`, `$1`).

package import Foundation

/// A value as a database keeps it.
package enum SQLValue: Hashable, Sendable {
    case null
    case integer(Int64)
    case real(Double)
    case text(String)
    case blob(Data)
}

/// The name of a table or a column.
package struct Identifier: Hashable, Sendable {
    package let name: String

    package init(_ name: String) {
        self.name = name
    }

    /// In double quotes; a double quote in the name is doubled.
    package var quoted: String {
        "\""
            + name.split(separator: "\"", omittingEmptySubsequences: false).joined(
                separator: "\"\""
            )
            + "\""
    }
}

package struct SQL: Hashable, Sendable, ExpressibleByStringInterpolation {
    package enum Fragment: Hashable, Sendable {
        case text(String)
        case binding(SQLValue)
    }

    package private(set) var fragments: [Fragment] = []

    package init() {}

    package init(stringLiteral text: String) {
        append(text)
    }

    package init(stringInterpolation: StringInterpolation) {
        self = stringInterpolation.sql
    }

    package struct StringInterpolation: StringInterpolationProtocol {
        var sql = SQL()

        package init(literalCapacity: Int, interpolationCount: Int) {}

        package mutating func appendLiteral(_ literal: String) { sql.append(literal) }

        /// A bound value.
        package mutating func appendInterpolation(_ value: SQLValue) {
            sql.fragments.append(.binding(value))
        }

        /// A quoted name.
        package mutating func appendInterpolation(_ identifier: Identifier) {
            sql.append(identifier.quoted)
        }

        /// A part that has its own bound values.
        package mutating func appendInterpolation(_ part: SQL) { sql.append(part) }

        /// A count or a position, written as digits.
        package mutating func appendInterpolation(_ number: Int) { sql.append(String(number)) }
    }

    /// A text that a dialect composed of its own words and quoted names.
    package init(verbatim text: String) {
        append(text)
    }

    package mutating func append(_ part: SQL) {
        for fragment in part.fragments {
            switch fragment {
            case .text(let text): append(text)
            case .binding: fragments.append(fragment)
            }
        }
    }

    private mutating func append(_ text: String) {
        if text.isEmpty { return }
        if case .text(let before) = fragments.last {
            fragments[fragments.count - 1] = .text(before + text)
        } else {
            fragments.append(.text(text))
        }
    }

    package static func + (left: SQL, right: SQL) -> SQL {
        var result = left
        result.append(right)
        return result
    }

    package var isEmpty: Bool { fragments.isEmpty }

    /// The bound values, in the order of their placeholders.
    package var bindings: [SQLValue] {
        fragments.compactMap { if case .binding(let value) = $0 { value } else { nil } }
    }

    /// The statement with numbered placeholders.
    package func text(for dialect: SQLDialect) -> String {
        var result = ""
        var number = 0
        for fragment in fragments {
            switch fragment {
            case .text(let text): result += text
            case .binding:
                number += 1
                result += dialect.placeholder(number)
            }
        }
        return result
    }
}

extension Sequence where Element == SQL {
    /// The parts with the separator between them.
    package func joined(separator: SQL) -> SQL {
        var result = SQL()
        for part in self {
            if !result.isEmpty { result.append(separator) }
            result.append(part)
        }
        return result
    }
}
