// ExpressionType: types of expressions.

/// The type of an expression's result, for ``FilterChecker`` and ``FilterRenderer``.
package enum ExpressionType: Hashable, Sendable {
    /// The literal null, which is compatible with every type.
    case null
    case boolean
    case integer
    case number
    case decimal
    case string
    case dateTime
    case date
    case time
    case guid
    case binary
    case json
    case enumeration([String])
    /// An unknown type, for rows without a schema.
    case any

    package init(_ type: ColumnType) {
        switch type {
        case .string: self = .string
        case .integer: self = .integer
        case .number: self = .number
        case .decimal: self = .decimal
        case .boolean: self = .boolean
        case .dateTime: self = .dateTime
        case .date: self = .date
        case .time: self = .time
        case .guid: self = .guid
        case .binary: self = .binary
        case .json: self = .json
        case .enumeration(let members): self = .enumeration(members)
        }
    }

    package init(of value: Value) {
        switch value {
        case .null: self = .null
        case .bool: self = .boolean
        case .integer: self = .integer
        case .number: self = .number
        case .decimal: self = .decimal
        case .string: self = .string
        case .date: self = .dateTime
        case .data: self = .binary
        case .json: self = .json
        }
    }

    package var isNumeric: Bool { self == .integer || self == .number || self == .decimal }

    package var isEnumeration: Bool { if case .enumeration = self { true } else { false } }

    /// Whether text functions accept the type.
    package var isText: Bool { self == .string || self == .guid || isEnumeration }

    /// The name of the type in messages.
    package var name: String {
        switch self {
        case .null: "null"
        case .boolean: "a condition"
        case .integer: "a whole number"
        case .number: "a number"
        case .decimal: "a decimal"
        case .string: "a string"
        case .dateTime: "an instant"
        case .date: "a date"
        case .time: "a time of day"
        case .guid: "a UUID"
        case .binary: "binary data"
        case .json: "a JSON document"
        case .enumeration: "a member of an enumeration"
        case .any: "a value"
        }
    }
}

extension QueryExpression {
    /// Returns the type of the expression, given the columns of a table; `any` for an undeclared
    /// column.
    package func type(in schema: TableSchema?) -> ExpressionType {
        switch kind {
        case .field(let name):
            schema?.column(named: name).map { ExpressionType($0.type) } ?? .any
        case .value(let value): ExpressionType(of: value)
        case .compare, .all, .any, .not, .isIn, .localizedCompare: .boolean
        case .arithmetic(let operation, let left, let right):
            Self.result(operation, left.type(in: schema), right.type(in: schema))
        case .negate(let operand), .orElse(let operand, _): operand.type(in: schema)
        case .call(.cast, let arguments): arguments.edmType?.type ?? .any
        case .call(let function, let arguments):
            function.resultType ?? arguments.first?.type(in: schema) ?? .any
        case .position, .elementCount: .integer
        case .anyElement, .search(.matches), .related: .boolean
        case .search(.rank): .number
        // A document has no schema.
        case .member, .element: .any
        }
    }

    /// Returns the type of an arithmetic result.
    ///
    /// Two integers result in an integer (or a double for `divby`). Two decimals, or a decimal and
    /// an integer, result in a decimal. An unknown operand makes the result unknown, and null makes
    /// it null. Any other combination results in a double.
    private static func result(
        _ operation: Arithmetic,
        _ left: ExpressionType,
        _ right: ExpressionType
    ) -> ExpressionType {
        switch (left, right) {
        case (.any, _), (_, .any): .any
        case (.null, _), (_, .null): .null
        case (.integer, .integer): operation == .divby ? .number : .integer
        case (.decimal, .decimal), (.decimal, .integer), (.integer, .decimal): .decimal
        case (.boolean, _), (.integer, _), (.number, _), (.decimal, _), (.string, _),
            (.dateTime, _), (.date, _), (.time, _), (.guid, _), (.binary, _), (.json, _),
            (.enumeration, _):
            .number
        }
    }
}

extension Function {
    /// The type of the result; nil if the result has the type of the argument.
    var resultType: ExpressionType? {
        switch self {
        case .contains, .localizedContains, .localizedCaseInsensitiveContains, .startswith,
            .endswith, .matchesPattern, .isof, .has:
            .boolean
        case .length, .indexof, .year, .month, .day, .hour, .minute, .second, .totaloffsetminutes:
            .integer
        case .substring, .replace, .tolower, .toupper, .trim, .concat: .string
        case .fractionalseconds: .number
        case .date: .date
        case .time: .time
        case .now: .dateTime
        case .floor, .ceiling, .round, .roundAway, .cast: nil
        }
    }
}

extension [QueryExpression] {
    /// The type that the last argument of `cast` or `isof` names.
    package var edmType: EdmType? {
        guard count == 2, case .value(.string(let name)) = self[1].kind else { return nil }
        return EdmType(rawValue: name)
    }
}
