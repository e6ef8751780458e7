// OptionalOperators: operators of `where:` closures for columns and values that may be nil,
// and closures that do not use the columns.

import TidelineCore

extension Column {
    /// Matches if the column has the value of an optional; nil matches null.
    @_disfavoredOverload
    public static func == (left: Column, right: Content?) -> Condition {
        left.with(Column<Content?>.literal(right)) { .compare(.eq, $0, $1) }
    }

    /// Matches if the column has a value other than the optional's; nil matches any value.
    @_disfavoredOverload
    public static func != (left: Column, right: Content?) -> Condition {
        left.with(Column<Content?>.literal(right)) { .compare(.ne, $0, $1) }
    }
}

extension Column {
    /// The value of a column, or another value if the column is null: `($0.rank ?? 0) > 3`.
    public static func ?? <Wrapped>(left: Column, right: Wrapped) -> Column<Wrapped>
    where Content == Wrapped? {
        Column<Wrapped>(either: {
            try left.alternatives().orElse(
                Column<Wrapped>.literal(right).alternatives(),
                isBoolean: Wrapped.self == Bool.self
            )
        })
    }

    /// The value of a column, or the value of another column if the first is null.
    public static func ?? <Wrapped>(left: Column, right: Column<Wrapped>) -> Column<Wrapped>
    where Content == Wrapped? {
        Column<Wrapped>(either: {
            try left.alternatives().orElse(
                right.alternatives(),
                isBoolean: Wrapped.self == Bool.self
            )
        })
    }
}

extension Column where Content == Value {
    /// The value of a column by name, or another value if the column is null: `($0["rank"] ?? 0) > 3`.
    public static func ?? (left: Column, right: Value) -> Column {
        Column(either: {
            try left.alternatives().orElse(
                Column.literal(right).alternatives(),
                isBoolean: false
            )
        })
    }
}

// A null Boolean does not match.

extension Column where Content == Bool? {
    /// Whether both conditions match.
    public static func && (left: Column, right: Column) -> Condition {
        left.with(right) { .and($0, $1) }
    }

    /// Whether both conditions match.
    public static func && (left: Column, right: Condition) -> Condition {
        left.with(right) { .and($0, $1) }
    }

    /// Whether both conditions match.
    public static func && (left: Condition, right: Column) -> Condition {
        left.with(right) { .and($0, $1) }
    }

    /// Whether at least one condition matches.
    public static func || (left: Column, right: Column) -> Condition {
        left.with(right) { .or($0, $1) }
    }

    /// Whether at least one condition matches.
    public static func || (left: Column, right: Condition) -> Condition {
        left.with(right) { .or($0, $1) }
    }

    /// Whether at least one condition matches.
    public static func || (left: Condition, right: Column) -> Condition {
        left.with(right) { .or($0, $1) }
    }

    /// Whether the column is false or null.
    public static prefix func ! (column: Column) -> Condition { column.map { .not($0) } }
}

extension Column: ExpressibleByBooleanLiteral where Content == Bool {
    /// Creates a condition that always matches, or never does: `{ _ in true }`.
    public init(booleanLiteral value: Bool) { self = .literal(value) }
}
