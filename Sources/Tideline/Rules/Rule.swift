// Rule: a restriction on the values of a model's rows, in addition to their types.

public import TidelineCore

/// A rule for the rows of a table, which the device checks before it queues a change.
///
/// ```swift
/// struct Job: SyncRecord {
///     var id = UUID().uuidString.lowercased()
///     var number = ""
///     var title = ""
///     var minutes = 0
///     var start: Date?
///     var end: Date?
///
///     static let rules: [Rule<Job>] = [
///         .required(\.title),
///         .maxLength(\.title, 80),
///         .range(\.minutes, 0...1440),
///         .compare(\.start, .lessOrEqual, \.end),
///         .unique(\.number),
///     ]
/// }
/// ```
///
/// The server has the same rules in its configuration. `tideline models --swift` prints them. See <doc:Rules>.
///
/// If a rule does not fit its property, such as a `min` of a string or an invalid pattern, opening the store throws
/// ``SyncError`` with code `invalidModel`.
public struct Rule<Record>: Sendable {
    enum Kind: Sendable {
        case required(PropertyPath<Record>)
        case maxLength(PropertyPath<Record>, Int)
        case min(PropertyPath<Record>, Result<Value, any Error>)
        case max(PropertyPath<Record>, Result<Value, any Error>)
        case range(
            PropertyPath<Record>,
            Result<Value, any Error>,
            Result<Value, any Error>
        )
        case pattern(PropertyPath<Record>, String)
        case unique([PropertyPath<Record>])
        case compare(
            PropertyPath<Record>,
            ColumnComparison.Operator,
            PropertyPath<Record>
        )
    }

    let kind: Kind

    /// A value is required: not nil, and not an empty string or empty data.
    public static func required(_ path: PropertyPath<Record>) -> Rule {
        Rule(kind: .required(path))
    }

    /// A string has at most this number of Unicode scalars, or data at most this number of bytes.
    public static func maxLength(
        _ path: PropertyPath<Record>,
        _ length: Int
    ) -> Rule {
        Rule(kind: .maxLength(path, length))
    }

    /// A number, instant, day or time of day is at least this value.
    public static func min<Bound: Sendable>(
        _ path: any KeyPath<Record, Bound> & Sendable,
        _ value: Bound
    ) -> Rule {
        Rule(kind: .min(path, bound(value)))
    }

    /// A number, instant, day or time of day is nil, or at least this value.
    public static func min<Bound: Sendable>(
        _ path: any KeyPath<Record, Bound?> & Sendable,
        _ value: Bound
    ) -> Rule {
        Rule(kind: .min(path, bound(value)))
    }

    /// A number, instant, day or time of day is at most this value.
    public static func max<Bound: Sendable>(
        _ path: any KeyPath<Record, Bound> & Sendable,
        _ value: Bound
    ) -> Rule {
        Rule(kind: .max(path, bound(value)))
    }

    /// A number, instant, day or time of day is nil, or at most this value.
    public static func max<Bound: Sendable>(
        _ path: any KeyPath<Record, Bound?> & Sendable,
        _ value: Bound
    ) -> Rule {
        Rule(kind: .max(path, bound(value)))
    }

    /// A number, instant, day or time of day is in this range; this is equivalent to `min` and `max`.
    public static func range<Bound: Sendable>(
        _ path: any KeyPath<Record, Bound> & Sendable,
        _ range: ClosedRange<Bound>
    ) -> Rule {
        Rule(kind: .range(path, bound(range.lowerBound), bound(range.upperBound)))
    }

    /// A number, instant, day or time of day is nil, or in this range.
    public static func range<Bound: Sendable>(
        _ path: any KeyPath<Record, Bound?> & Sendable,
        _ range: ClosedRange<Bound>
    ) -> Rule {
        Rule(kind: .range(path, bound(range.lowerBound), bound(range.upperBound)))
    }

    /// A string matches a regular expression as a whole.
    ///
    /// The expression may contain scalars, `.`, classes, `\d \w \s` and their complements (ASCII), groups, `|`, `*`,
    /// `+`, `?`, `{m,n}`, `^` and `$`, as on the server. A string of more than 10,000 Unicode scalars breaks the rule.
    public static func pattern(
        _ path: PropertyPath<Record>,
        _ pattern: String
    ) -> Rule {
        Rule(kind: .pattern(path, pattern))
    }

    /// No two rows have the same values in these properties; rows with nil in one of them are not compared.
    ///
    /// Only the server has all rows, so only the server checks this rule. The server rejects an operation that breaks
    /// the rule with the code `notUnique`.
    public static func unique(_ paths: PropertyPath<Record>...) -> Rule {
        Rule(kind: .unique(paths))
    }

    /// Two properties of the same type satisfy a comparison, or one of them is nil.
    public static func compare(
        _ left: PropertyPath<Record>,
        _ comparison: ColumnComparison.Operator,
        _ right: PropertyPath<Record>
    ) -> Rule {
        Rule(kind: .compare(left, comparison, right))
    }

    private static func bound<Bound>(_ value: Bound) -> Result<Value, any Error> {
        Result { try Literal.value(value) }
    }
}
