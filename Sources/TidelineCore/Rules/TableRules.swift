// TableRules: the rules for the rows of a table that involve more than one column or row.

/// The rules for a table's rows, in addition to the rules of single columns.
public struct TableRules: Hashable, Sendable {
    /// The lists of columns whose combined values must be unique.
    ///
    /// Only rows that are not deleted and have no null in these columns are compared. In a table
    /// with an owner, a row is compared only with other rows of the same owner.
    public var unique: [[String]]
    /// The comparisons of two columns that each row must satisfy.
    public var comparisons: [ColumnComparison]

    /// The cases of string columns that a model declares as enums; the order of the cases is the
    /// order of the values.
    package var members: [String: [String]] = [:]

    /// Creates rules; by default, there are none.
    public init(unique: [[String]] = [], comparisons: [ColumnComparison] = []) {
        self.unique = unique
        self.comparisons = comparisons
    }

    /// Whether there are no rules.
    public var isEmpty: Bool { unique.isEmpty && comparisons.isEmpty }
}

/// A comparison of two columns of a row, such as `start <= end`.
///
/// Both columns have the same type. A row satisfies the comparison if either value is null.
/// Instants are compared in milliseconds, as they are sent; strings by Unicode scalar value; and
/// enumerations by position.
public struct ColumnComparison: Hashable, Sendable {
    /// The operator of a comparison.
    public enum Operator: String, Hashable, Sendable, CaseIterable {
        /// Less than.
        case less = "<"
        /// Less than or equal to.
        case lessOrEqual = "<="
        /// Equal to.
        case equal = "="
        /// Different from.
        case different = "!="
        /// Greater than or equal to.
        case greaterOrEqual = ">="
        /// Greater than.
        case greater = ">"
    }

    /// The column before the operator.
    public var left: String
    /// The operator.
    public var `operator`: Operator
    /// The column after the operator.
    public var right: String

    /// Creates a comparison.
    public init(_ left: String, _ comparison: Operator, _ right: String) {
        self.left = left
        self.operator = comparison
        self.right = right
    }

    /// Returns whether an operator can compare values of a type.
    package static func fits(_ comparison: Operator, _ type: ColumnType) -> Bool {
        switch type {
        case .string, .integer, .number, .decimal, .dateTime, .date, .time, .enumeration: true
        case .boolean, .guid, .binary: comparison == .equal || comparison == .different
        case .json: false
        }
    }

    /// Returns whether two stored values of a type satisfy the comparison; true if either is null.
    package func holds(_ one: SQLValue, _ two: SQLValue, _ type: ColumnType) -> Bool {
        guard one != .null, two != .null else { return true }
        let isLess = StoredOrder.isLess(one, two, type)
        let isGreater = StoredOrder.isLess(two, one, type)
        switch self.operator {
        case .less: return isLess
        case .lessOrEqual: return !isGreater
        case .equal: return StoredOrder.isSame(one, two, type)
        case .different: return !StoredOrder.isSame(one, two, type)
        case .greaterOrEqual: return !isLess
        case .greater: return isGreater
        }
    }

    /// The comparison in words, after "the value".
    fileprivate var words: String {
        switch self.operator {
        case .less: "must be less than"
        case .lessOrEqual: "must not be greater than"
        case .equal: "must be equal to"
        case .different: "must differ from"
        case .greaterOrEqual: "must not be less than"
        case .greater: "must be greater than"
        }
    }

    /// The violation that a row commits if it does not satisfy the comparison.
    package var violation: RuleViolation {
        RuleViolation(
            .comparison,
            [left, right],
            "Member '\(left)': the value \(words) that of '\(right)'."
        )
    }
}

/// The order of stored values.
enum StoredOrder {
    /// Returns whether a stored value is less than another value of the same type.
    static func isLess(_ one: SQLValue, _ two: SQLValue, _ type: ColumnType) -> Bool {
        switch (one, two, type) {
        case (.integer(let one), .integer(let two), .dateTime):
            milliseconds(one) < milliseconds(two)
        case (.text(let one), .text(let two), .enumeration(let members)):
            index(of: one, in: members) < index(of: two, in: members)
        default: ColumnCheck.isLess(one, two, type)
        }
    }

    /// Returns whether two stored values of the same type are equal.
    static func isSame(_ one: SQLValue, _ two: SQLValue, _ type: ColumnType) -> Bool {
        switch (one, two) {
        case (.integer(let one), .integer(let two)) where type == .dateTime:
            milliseconds(one) == milliseconds(two)
        // Swift's `==` treats some strings as equal although their bytes differ.
        case (.text(let one), .text(let two)): one.hasSameBytes(as: two)
        default: one == two
        }
    }

    private static func milliseconds(_ microseconds: Int64) -> Int64 {
        Timestamp(microseconds: microseconds).milliseconds
    }

    private static func index(of member: String, in members: [String]) -> Int {
        members.firstIndex { $0.hasSameBytes(as: member) } ?? members.count
    }
}
