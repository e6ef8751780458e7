// SQLDialect: every word of rendered filters that databases spell differently, in one place.
//
// A new database adds a case and answers each `switch`; FilterRenderer stays as it is.

package enum SQLDialect: Hashable, Sendable, CaseIterable {
    case sqlite

    package func placeholder(_ number: Int) -> String {
        switch self {
        case .sqlite: "?\(number)"
        }
    }

    /// A condition that always or never holds.
    func constant(_ value: Bool) -> SQL {
        switch self {
        case .sqlite: value ? "1" : "0"
        }
    }

    /// Whether both are null or equal; never null itself.
    func equal(_ left: SQL, _ right: SQL) -> SQL {
        switch self {
        case .sqlite: "\(left) IS \(right)"
        }
    }

    /// Whether one is null or they differ; never null itself.
    func notEqual(_ left: SQL, _ right: SQL) -> SQL {
        switch self {
        case .sqlite: "\(left) IS NOT \(right)"
        }
    }

    /// The condition, false where it is null.
    func orFalse(_ condition: SQL) -> SQL {
        switch self {
        case .sqlite: "ifnull(\(condition), 0)"
        }
    }

    /// Whether a boolean column holds true; never null.
    func isTrue(_ value: SQL) -> SQL {
        switch self {
        case .sqlite: "\(value) IS 1"
        }
    }

    /// A boolean as the database keeps it.
    func boolean(_ value: Bool) -> SQLValue {
        switch self {
        case .sqlite: .integer(value ? 1 : 0)
        }
    }

    /// A call of a shared function.
    ///
    /// Those of conditions give true or false, never null.
    func call(_ name: String, _ arguments: [SQL]) -> SQL {
        SQL(verbatim: "tl_\(name)(") + arguments.joined(separator: ", ") + ")"
    }

    /// The order of two decimals: below 0, 0, above 0, or null.
    func decimalOrder(_ left: SQL, _ right: SQL) -> SQL {
        call("decimal_compare", [left, right])
    }

    /// A decimal as a key of an order.
    func decimalKey(_ value: SQL) -> SQL {
        switch self {
        case .sqlite: "\(value) COLLATE tl_decimal"
        }
    }

    /// The direction of a key, with nulls as the smallest values.
    func direction(isAscending: Bool) -> SQL {
        switch self {
        case .sqlite: isAscending ? "" : " DESC"
        }
    }
}
