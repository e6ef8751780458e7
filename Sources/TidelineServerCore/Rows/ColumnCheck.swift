// ColumnCheck: the compiled rules of a column: length, range, pattern.
//
// The checks use stored values, so that every kind of write is checked alike. A rejection names the JSON member and
// the rule, never the value.

import Foundation
package import TidelineCore

package struct ColumnCheck: Sendable {
    package enum Rule: String, Sendable {
        case maxLength
        case min
        case max
        case pattern

        package func fits(_ type: ColumnType) -> Bool {
            switch (self, type) {
            case (.maxLength, .string), (.maxLength, .binary), (.pattern, .string): true
            case (.min, .integer), (.min, .number), (.min, .decimal), (.min, .dateTime),
                (.min, .date), (.min, .time):
                true
            case (.max, _): Rule.min.fits(type)
            default: false
            }
        }
    }

    /// The maximum length of a string that is matched against a pattern, which bounds the time.
    package static let patternScalarsMax = 10_000

    private let maxLength: Int?
    private let min: SQLValue?
    private let max: SQLValue?
    private let pattern: TextPattern?
    private let minText: String
    private let maxText: String

    /// Creates a check; nil for a column without rules.
    ///
    /// An invalid pattern matches no value.
    package init?(_ column: ColumnDefinition) {
        let rules = column.rules
        guard rules != ColumnRules() else { return nil }
        maxLength = rules.maxLength
        min = rules.min.map { SQLValue($0, type: column.type) }
        max = rules.max.map { SQLValue($0, type: column.type) }
        minText = rules.min.map(Self.text) ?? ""
        maxText = rules.max.map(Self.text) ?? ""
        pattern = rules.pattern.map { (try? TextPattern($0)) ?? .nothing }
    }

    private static func text(_ value: Value) -> String {
        var writer = JSONWriter()
        writer.value(value)
        return writer.text
    }

    /// Rejects a value that violates a rule of the column.
    package func check(_ value: SQLValue, of column: ColumnDefinition) throws(ServerError) {
        if value == .null { return }
        if let maxLength, Self.length(value) > maxLength {
            let unit = column.type == .binary ? "bytes" : "characters"
            throw fault(column, "at most \(maxLength) \(unit) are allowed")
        }
        if let min, Self.isLess(value, min, column.type) {
            throw fault(column, "at least \(minText) is expected")
        }
        if let max, Self.isLess(max, value, column.type) {
            throw fault(column, "at most \(maxText) is expected")
        }
        if let pattern, case .text(let text) = value {
            guard text.unicodeScalars.count <= Self.patternScalarsMax else {
                throw fault(column, "at most \(Self.patternScalarsMax) characters are allowed")
            }
            guard pattern.matches(text) else {
                throw fault(column, "it does not match the pattern of the column")
            }
        }
    }

    private func fault(_ column: ColumnDefinition, _ reason: String) -> ServerError {
        .badRequest("Member '\(column.name)': \(reason).")
    }

    private static func length(_ value: SQLValue) -> Int {
        switch value {
        case .text(let text): text.unicodeScalars.count
        case .blob(let data): data.count
        default: 0
        }
    }

    /// Whether one stored value is less than another of the same type.
    package static func isLess(_ one: SQLValue, _ two: SQLValue, _ type: ColumnType) -> Bool {
        switch (one, two) {
        case (.integer(let one), .integer(let two)): one < two
        case (.real(let one), .real(let two)): one < two
        case (.text(let one), .text(let two)) where type == .decimal:
            DecimalText.compare(one.utf8, two.utf8) < 0
        // Dates and times have one spelling each, whose byte order is the order of the values.
        case (.text(let one), .text(let two)): one.utf8.lexicographicallyPrecedes(two.utf8)
        default: false
        }
    }
}
