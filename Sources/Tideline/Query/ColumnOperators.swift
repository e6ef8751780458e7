// ColumnOperators: comparisons and logic of `where:` closures.
//
// There are few overloads on purpose, because each one slows the type checker at every use of the operator. An optional
// column can be compared with a plain value, because Swift makes that value optional.

import TidelineCore

private func compare<Left, Right>(
    _ comparison: Comparison,
    _ left: Column<Left>,
    _ right: Column<Right>
) -> Condition {
    left.with(right) { .compare(comparison, $0, $1) }
}

extension Column {
    /// Matches if the column has this value; `nil` matches null.
    public static func == (left: Column, right: Content) -> Condition {
        compare(.eq, left, .literal(right))
    }

    /// Matches if the column has a value other than this one.
    ///
    /// Null differs from every value but nil.
    public static func != (left: Column, right: Content) -> Condition {
        compare(.ne, left, .literal(right))
    }

    /// Whether the column is less than a value.
    public static func < (left: Column, right: Content) -> Condition {
        compare(.lt, left, .literal(right))
    }

    /// Whether the column is at most a value.
    public static func <= (left: Column, right: Content) -> Condition {
        compare(.le, left, .literal(right))
    }

    /// Whether the column is greater than a value.
    public static func > (left: Column, right: Content) -> Condition {
        compare(.gt, left, .literal(right))
    }

    /// Whether the column is at least a value.
    public static func >= (left: Column, right: Content) -> Condition {
        compare(.ge, left, .literal(right))
    }

    /// Whether both columns are equal.
    ///
    /// Two nulls are equal.
    public static func == (left: Column, right: Column) -> Condition { compare(.eq, left, right) }

    /// Whether both columns differ.
    public static func != (left: Column, right: Column) -> Condition { compare(.ne, left, right) }

    /// Whether the first column is less than the second.
    public static func < (left: Column, right: Column) -> Condition { compare(.lt, left, right) }

    /// Whether the first column is at most the second.
    public static func <= (left: Column, right: Column) -> Condition { compare(.le, left, right) }

    /// Whether the first column is greater than the second.
    public static func > (left: Column, right: Column) -> Condition { compare(.gt, left, right) }

    /// Whether the first column is at least the second.
    public static func >= (left: Column, right: Column) -> Condition { compare(.ge, left, right) }

    /// Whether the column has one of these values.
    ///
    /// ```swift
    /// try await todos.read(where: { $0.state.isIn(["open", "waiting"]) })
    /// ```
    public func isIn(_ values: some Sequence<Content>) -> Condition {
        map { column in
            QueryExpression(.isIn(column, try values.map { try Literal.expression($0) }))
        }
    }

    /// Whether the column has one of these values.
    ///
    /// Null never matches.
    public func isIn<Wrapped>(_ values: some Sequence<Wrapped>) -> Condition
    where Content == Wrapped? {
        map { column in
            QueryExpression(.isIn(column, try values.map { try Literal.expression($0) }))
        }
    }
}

// The value is on the left: `3 < $0.rank`.

extension Column {
    /// Whether a value is equal to the column.
    public static func == (left: Content, right: Column) -> Condition {
        compare(.eq, .literal(left), right)
    }

    /// Whether a value differs from the column.
    public static func != (left: Content, right: Column) -> Condition {
        compare(.ne, .literal(left), right)
    }

    /// Whether a value is less than the column.
    public static func < (left: Content, right: Column) -> Condition {
        compare(.lt, .literal(left), right)
    }

    /// Whether a value is at most the column.
    public static func <= (left: Content, right: Column) -> Condition {
        compare(.le, .literal(left), right)
    }

    /// Whether a value is greater than the column.
    public static func > (left: Content, right: Column) -> Condition {
        compare(.gt, .literal(left), right)
    }

    /// Whether a value is at least the column.
    public static func >= (left: Content, right: Column) -> Condition {
        compare(.ge, .literal(left), right)
    }
}

// Comparisons of an optional column with a column that is not optional.

extension Column {
    /// Whether an optional column is equal to a non-optional column.
    public static func == <Wrapped>(left: Column, right: Column<Wrapped>) -> Condition
    where Content == Wrapped? { compare(.eq, left, right) }

    /// Whether a non-optional column is equal to an optional column.
    public static func == <Wrapped>(left: Column<Wrapped>, right: Column) -> Condition
    where Content == Wrapped? { compare(.eq, left, right) }

    /// Whether an optional column differs from a non-optional column.
    public static func != <Wrapped>(left: Column, right: Column<Wrapped>) -> Condition
    where Content == Wrapped? { compare(.ne, left, right) }

    /// Whether a non-optional column differs from an optional column.
    public static func != <Wrapped>(left: Column<Wrapped>, right: Column) -> Condition
    where Content == Wrapped? { compare(.ne, left, right) }

    /// Whether an optional column is less than a non-optional column.
    public static func < <Wrapped>(left: Column, right: Column<Wrapped>) -> Condition
    where Content == Wrapped? { compare(.lt, left, right) }

    /// Whether a non-optional column is less than an optional column.
    public static func < <Wrapped>(left: Column<Wrapped>, right: Column) -> Condition
    where Content == Wrapped? { compare(.lt, left, right) }

    /// Whether an optional column is at most a non-optional column.
    public static func <= <Wrapped>(left: Column, right: Column<Wrapped>) -> Condition
    where Content == Wrapped? { compare(.le, left, right) }

    /// Whether a non-optional column is at most an optional column.
    public static func <= <Wrapped>(left: Column<Wrapped>, right: Column) -> Condition
    where Content == Wrapped? { compare(.le, left, right) }

    /// Whether an optional column is greater than a non-optional column.
    public static func > <Wrapped>(left: Column, right: Column<Wrapped>) -> Condition
    where Content == Wrapped? { compare(.gt, left, right) }

    /// Whether a non-optional column is greater than an optional column.
    public static func > <Wrapped>(left: Column<Wrapped>, right: Column) -> Condition
    where Content == Wrapped? { compare(.gt, left, right) }

    /// Whether an optional column is at least a non-optional column.
    public static func >= <Wrapped>(left: Column, right: Column<Wrapped>) -> Condition
    where Content == Wrapped? { compare(.ge, left, right) }

    /// Whether a non-optional column is at least an optional column.
    public static func >= <Wrapped>(left: Column<Wrapped>, right: Column) -> Condition
    where Content == Wrapped? { compare(.ge, left, right) }
}

extension Column where Content == Bool {
    /// Whether both conditions match.
    public static func && (left: Condition, right: Condition) -> Condition {
        left.with(right) { .and($0, $1) }
    }

    /// Whether both conditions match; the second does not depend on rows.
    public static func && (left: Condition, right: Bool) -> Condition {
        left.with(.literal(right)) { .and($0, $1) }
    }

    /// Whether both conditions match; the first does not depend on rows.
    public static func && (left: Bool, right: Condition) -> Condition {
        Condition.literal(left).with(right) { .and($0, $1) }
    }

    /// Whether at least one condition matches.
    public static func || (left: Condition, right: Condition) -> Condition {
        left.with(right) { .or($0, $1) }
    }

    /// Whether at least one condition matches; the second does not depend on rows.
    public static func || (left: Condition, right: Bool) -> Condition {
        left.with(.literal(right)) { .or($0, $1) }
    }

    /// Whether at least one condition matches; the first does not depend on rows.
    public static func || (left: Bool, right: Condition) -> Condition {
        Condition.literal(left).with(right) { .or($0, $1) }
    }

    /// Whether the condition does not match; a null Boolean does not match.
    public static prefix func ! (condition: Condition) -> Condition {
        condition.map { .not($0) }
    }

    /// A condition that always matches, or never does.
    public static func always(_ holds: Bool = true) -> Condition { .literal(holds) }
}

extension Sequence {
    /// Whether a column has one of these values: `["open", "waiting"].contains($0.state)`.
    public func contains(_ column: Column<Element>) -> Condition { column.isIn(self) }

    /// Whether a column that may be null has one of these values; null never matches.
    public func contains(_ column: Column<Element?>) -> Condition { column.isIn(self) }
}

extension ClosedRange {
    /// Whether a column lies in the range, including both bounds.
    public func contains(_ column: Column<Bound>) -> Condition {
        column >= lowerBound && column <= upperBound
    }
}

extension Range {
    /// Whether a column lies in the range, excluding the upper bound.
    public func contains(_ column: Column<Bound>) -> Condition {
        column >= lowerBound && column < upperBound
    }
}
