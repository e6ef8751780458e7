// RuleViolation: a rule that a row breaks, with the same code and message on devices and servers.

/// A rule that a row breaks, with the server's message.
///
/// The message names columns and the bounds of the rule, never values of the row.
public struct RuleViolation: Error, Hashable, Sendable {
    /// A kind of rule; the raw value is the code in a problem document.
    public enum Code: String, Hashable, Sendable, CaseIterable {
        /// A required value is missing, or is an empty string.
        case required = "valueRequired"
        /// A string or binary data is longer than `maxLength`.
        case maxLength = "valueTooLong"
        /// A value is less than `min`.
        case min = "valueTooSmall"
        /// A value is greater than `max`.
        case max = "valueTooLarge"
        /// A string does not match `pattern`.
        case pattern = "patternMismatch"
        /// Two columns do not satisfy a comparison.
        case comparison = "comparisonFailed"
        /// Another row has the same values in the columns of a `unique` rule.
        case notUnique
    }

    /// The kind of the rule.
    public var code: Code
    /// The columns to which the rule applies.
    public var columns: [String]
    /// The message for the author of the row.
    public var message: String

    package init(_ code: Code, _ columns: [String], _ message: String) {
        self.code = code
        self.columns = columns
        self.message = message
    }

    /// Returns the violation of a `unique` rule.
    package static func notUnique(_ columns: [String]) -> RuleViolation {
        let names = columns.map { "'\($0)'" }.joined(separator: ", ")
        let message =
            columns.count == 1
            ? "Member \(names): another row has the same value."
            : "Members \(names): another row has the same values."
        return RuleViolation(.notUnique, columns, message)
    }
}
