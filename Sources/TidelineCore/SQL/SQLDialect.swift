// SQLDialect: the differences between SQLite and PostgreSQL in rendered filters.
//
// To support a new database, add a case and implement each `switch`; FilterRenderer stays
// unchanged. PostgreSQL gets only the expressions that FilterSplit found to be exact, because
// PostgreSQL does not have the server's functions.

import Foundation

/// A SQL dialect: the parts of SQL that differ between databases.
package enum SQLDialect: Hashable, Sendable, CaseIterable {
    case sqlite
    case postgres

    package func placeholder(_ number: Int) -> String {
        switch self {
        // With numbered parameters, SQLite would search all other parameters for the name, which is
        // quadratic in long lists.
        case .sqlite: "?"
        case .postgres: "$\(number)"
        }
    }

    /// Returns a condition that is always true or always false.
    func constant(_ value: Bool) -> SQL {
        switch self {
        case .sqlite: value ? "1" : "0"
        case .postgres: value ? "TRUE" : "FALSE"
        }
    }

    /// Returns the condition that both values are null or equal, which is never null.
    func equal(_ left: SQL, _ right: SQL) -> SQL {
        switch self {
        case .sqlite: "\(left) IS \(right)"
        case .postgres: "\(left) IS NOT DISTINCT FROM \(right)"
        }
    }

    /// Returns the condition that the values differ or one is null, which is never null.
    func notEqual(_ left: SQL, _ right: SQL) -> SQL {
        switch self {
        case .sqlite: "\(left) IS NOT \(right)"
        case .postgres: "\(left) IS DISTINCT FROM \(right)"
        }
    }

    /// Returns the condition with null replaced by false.
    func orFalse(_ condition: SQL) -> SQL {
        switch self {
        case .sqlite: "ifnull(\(condition), 0)"
        case .postgres: "coalesce(\(condition), FALSE)"
        }
    }

    /// Returns the value, or another value if it is null.
    func value(_ value: SQL, or other: SQL) -> SQL {
        switch self {
        case .sqlite: "ifnull(\(value), \(other))"
        case .postgres: "coalesce(\(value), \(other))"
        }
    }

    /// Returns the condition that a Boolean column is true, which is never null.
    func isTrue(_ value: SQL) -> SQL {
        switch self {
        case .sqlite: "\(value) IS 1"
        case .postgres: "\(value) IS TRUE"
        }
    }

    /// Returns a literal for a value in a statement.
    ///
    /// `stored` is the same value in the form that SQLite stores.
    func literal(_ value: Value, stored: SQLValue) -> SQL {
        guard self == .postgres else { return "\(stored)" }
        return switch value {
        case .bool(let value): value ? "TRUE" : "FALSE"
        case .decimal: "\(stored)::numeric"
        case .date(let date): "\(.text(Timestamp(date).exactText))::timestamptz"
        case .string: "\(stored) COLLATE \"C\""
        case .null, .integer, .number, .data, .json: "\(stored)"
        }
    }

    /// Returns a column in the form in which its values are compared.
    ///
    /// Days, times, and UUIDs are compared as strings in the wire format. If the column is not
    /// nullable, null represents the empty string.
    func column(_ name: SQL, _ type: ExpressionType, isNullable: Bool) -> SQL {
        guard self == .postgres else { return name }
        let text: SQL
        switch type {
        case .date: text = "to_char(\(name), 'YYYY-MM-DD')"
        case .time: text = "regexp_replace(to_char(\(name), 'HH24:MI:SS.US'), '000$', '')"
        case .guid: text = "\(name)::text"
        case .null, .boolean, .integer, .number, .decimal, .string, .dateTime, .binary, .json,
            .enumeration, .any:
            return name
        }
        return isNullable ? "\(text) COLLATE \"C\"" : "coalesce(\(text), '') COLLATE \"C\""
    }

    /// Returns the condition that the text of a document contains a string.
    func search(_ document: SQL, _ text: String) -> SQL {
        switch self {
        case .sqlite: "instr(\(document), \(.text(text))) > 0"
        case .postgres: "strpos(\(document)::text, \(.text(text))) > 0"
        }
    }

    /// Returns an instant in microseconds, rounded down to the millisecond.
    func cutInstant(_ value: SQL) -> SQL {
        switch self {
        case .sqlite: "(\(value) - (\(value) % 1000 + 1000) % 1000)"
        case .postgres: "date_trunc('milliseconds', \(value))"
        }
    }

    /// Returns a call of a shared function.
    ///
    /// Conditions return true or false, never null.
    func call(_ name: String, _ arguments: [SQL]) -> SQL {
        switch self {
        case .sqlite:
            return SQL(verbatim: "tl_\(name)(") + arguments.joined(separator: ", ") + ")"
        case .postgres:
            let (one, two) = (arguments[0], arguments.last ?? arguments[0])
            return switch name {
            case "contains": "coalesce(strpos(\(one), \(two)) > 0, FALSE)"
            case "startswith": "coalesce(starts_with(\(one), \(two)), FALSE)"
            case "endswith": "coalesce(right(\(one), length(\(two))) = \(two), FALSE)"
            case "has": "coalesce(\(one) = \(two), FALSE)"
            case "length": "length(\(one))::bigint"
            default: preconditionFailure("PostgreSQL was given what FilterSplit keeps from it")
            }
        }
    }

    /// Returns the order of two decimals: negative, 0, positive, or null.
    func decimalOrder(_ left: SQL, _ right: SQL) -> SQL {
        call("decimal_compare", [left, right])
    }

    /// Returns a decimal as a sort key.
    func decimalKey(_ value: SQL) -> SQL {
        switch self {
        case .sqlite: "\(value) COLLATE tl_decimal"
        case .postgres: value
        }
    }

    /// Returns a condition as a sort key.
    ///
    /// A constant condition must not be rendered as a plain number, because that would be the
    /// position of a column.
    func conditionKey(_ value: SQL) -> SQL {
        switch self {
        case .sqlite: "\(value) + 0"
        case .postgres: "(\(value))::int + 0"
        }
    }

    /// Returns a literal as a sort key.
    func constantKey(_ value: SQL) -> SQL {
        switch self {
        case .sqlite: value
        case .postgres: "coalesce(\(value))"
        }
    }

    /// Whether decimals are stored as text and compared by our functions.
    var keepsDecimalsAsText: Bool { self == .sqlite }

    /// Whether the parser rejects deep nesting, so that deep expressions are bound as programs.
    var nestsShallow: Bool { self == .sqlite }

    /// The direction of a key, which sorts nulls as the smallest values.
    func direction(isAscending: Bool) -> SQL {
        switch self {
        case .sqlite: isAscending ? "" : " DESC"
        case .postgres: isAscending ? " NULLS FIRST" : " DESC NULLS LAST"
        }
    }
}
