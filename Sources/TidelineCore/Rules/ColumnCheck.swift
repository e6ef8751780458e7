// ColumnCheck: the compiled rules of a column: required, length, range, pattern.
//
// The checks use stored values, so that all kinds of writes are checked alike. A violation names
// the JSON member and the rule, never the value.

import Foundation

/// The compiled rules of a column.
package struct ColumnCheck: Sendable {
    /// A rule, named by its configuration key.
    package enum Rule: String, Sendable, CaseIterable {
        case required
        case maxLength
        case min
        case max
        case pattern

        package func fits(_ type: ColumnType) -> Bool {
            switch self {
            case .required: true
            case .maxLength: type == .string || type == .binary
            case .pattern: type == .string
            case .min, .max:
                switch type {
                case .integer, .number, .decimal, .dateTime, .date, .time: true
                case .string, .boolean, .guid, .binary, .json, .enumeration: false
                }
            }
        }
    }

    /// The maximum length of a string that is matched against a pattern; it bounds the matching
    /// time.
    package static let patternScalarsMax = 10_000

    private let isRequired: Bool
    private let maxLength: Int?
    private let min: SQLValue?
    private let max: SQLValue?
    private let pattern: TextPattern?
    private let minText: String
    private let maxText: String

    /// Creates a check; nil for a column without rules.
    ///
    /// An invalid pattern never matches.
    package init?(_ column: ColumnDefinition) {
        let rules = column.rules
        guard rules != ColumnRules() else { return nil }
        isRequired = rules.isRequired
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

    /// Returns the column's rule that a value breaks; nil if the value breaks none.
    package func check(_ value: SQLValue, of column: ColumnDefinition) -> RuleViolation? {
        if isRequired, value == .null || Self.isEmpty(value, column.type) {
            return violation(.required, column, "a value is expected")
        }
        if value == .null { return nil }
        if let maxLength, Self.length(value) > maxLength {
            let unit = column.type == .binary ? "bytes" : "characters"
            return violation(.maxLength, column, "at most \(maxLength) \(unit) are allowed")
        }
        if let min, Self.isLess(value, min, column.type) {
            return violation(.min, column, "at least \(minText) is expected")
        }
        if let max, Self.isLess(max, value, column.type) {
            return violation(.max, column, "at most \(maxText) is expected")
        }
        if let pattern, case .text(let text) = value {
            guard text.unicodeScalars.count <= Self.patternScalarsMax else {
                let reason = "at most \(Self.patternScalarsMax) characters are allowed"
                return violation(.maxLength, column, reason)
            }
            guard pattern.matches(text) else {
                return violation(.pattern, column, "it does not match the pattern of the column")
            }
        }
        return nil
    }

    private func violation(
        _ code: RuleViolation.Code,
        _ column: ColumnDefinition,
        _ reason: String
    ) -> RuleViolation {
        RuleViolation(code, [column.name], "Member '\(column.name)': \(reason).")
    }

    /// Returns whether a value is an empty string, empty binary data, or the document null, which
    /// devices read as a missing value.
    private static func isEmpty(_ value: SQLValue, _ type: ColumnType) -> Bool {
        switch value {
        case .text(let text): text.isEmpty || type == .json && text == "null"
        case .blob(let data): data.isEmpty
        case .null, .integer, .real, .program: false
        }
    }

    private static func length(_ value: SQLValue) -> Int {
        switch value {
        case .text(let text): text.unicodeScalars.count
        case .blob(let data): data.count
        case .null, .integer, .real, .program: 0
        }
    }

    /// Returns whether a stored value is less than another one of the same type.
    package static func isLess(_ one: SQLValue, _ two: SQLValue, _ type: ColumnType) -> Bool {
        switch (one, two) {
        case (.integer(let one), .integer(let two)): one < two
        case (.real(let one), .real(let two)): one < two
        case (.text(let one), .text(let two)) where type == .decimal:
            DecimalText.compare(one.utf8, two.utf8) < 0
        // Each date and time has a single spelling, and the byte order of the spellings is the
        // order of the values.
        case (.text(let one), .text(let two)): one.utf8.lexicographicallyPrecedes(two.utf8)
        case (.null, _), (.integer, _), (.real, _), (.text, _), (.blob, _), (.program, _): false
        }
    }
}
