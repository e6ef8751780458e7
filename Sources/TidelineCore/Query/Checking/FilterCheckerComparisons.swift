// FilterCheckerComparisons: checks the comparisons in a filter: the types of both sides and the
// values of literals.

extension FilterChecker {
    func compare(
        _ comparison: Comparison,
        _ left: QueryExpression,
        _ right: QueryExpression,
        _ whole: QueryExpression
    ) throws(ODataError) -> QueryExpression {
        var (one, two) = (try check(left), try check(right))
        two = try coerced(two, to: one.type)
        one = try coerced(one, to: two.type)
        try meet(one.type, two.type, comparison, whole)
        var result = whole
        result.kind = .compare(comparison, one.expression, two.expression)
        guard comparison != .eq, comparison != .ne else {
            return inEitherCase(comparison, one, two) ?? result
        }
        return byPosition(comparison, one, two, result)
    }

    /// Checks a comparison in a localized order, which only a device can evaluate.
    func localizedCompare(
        _ comparison: Comparison,
        _ left: QueryExpression,
        _ right: QueryExpression,
        _ order: LocalizedOrder,
        _ whole: QueryExpression
    ) throws(ODataError) -> QueryExpression {
        let (one, two) = (try check(left), try check(right))
        let isText = [one, two].allSatisfy {
            $0.type == .string || $0.type == .any || $0.type == .null || $0.type.isEnumeration
        }
        guard schema == nil || isOnDevice, isText else {
            throw mismatch(
                "a comparison in a localized order needs strings, and works on a device only",
                whole
            )
        }
        return whole.with(.localizedCompare(comparison, one.expression, two.expression, order))
    }

    func isIn(
        _ operand: QueryExpression,
        _ elements: [QueryExpression],
        _ whole: QueryExpression
    ) throws(ODataError) -> QueryExpression {
        var checked = try check(operand)
        var parts: [Checked] = []
        for element in elements { parts.append(try check(element)) }
        if let column = parts.first(where: { !$0.expression.isLiteral }) {
            checked = try coerced(checked, to: column.type)
        }
        var list: [QueryExpression] = []
        for part in parts {
            let one = try coerced(part, to: checked.type)
            try meet(checked.type, one.type, .eq, one.expression)
            list.append(one.expression)
        }
        if mayHoldUpperCase(checked) {
            list += list.compactMap { Self.inUpperCase($0) }
        }
        var result = whole
        result.kind = .isIn(checked.expression, list)
        return result
    }

    /// Returns whether an operand is a UUID column of a device, which may contain upper-case
    /// strings.
    ///
    /// UUIDs are written in lower case, but a column that used to be a string column may contain
    /// upper case. Unlike a function, a list of both spellings can use an index.
    private func mayHoldUpperCase(_ operand: Checked) -> Bool {
        guard isOnDevice, operand.type == .guid, case .field = operand.expression.kind else {
            return false
        }
        return true
    }

    /// Returns a UUID in upper case; nil for other expressions.
    private static func inUpperCase(_ literal: QueryExpression) -> QueryExpression? {
        guard case .value(.string(let text)) = literal.kind else { return nil }
        let upper = text.uppercased()
        return upper == text ? nil : literal.with(.value(.string(upper)))
    }

    /// Returns the condition that a UUID column equals a literal in upper or lower case; nil for
    /// other comparisons.
    private func inEitherCase(
        _ comparison: Comparison,
        _ one: Checked,
        _ two: Checked
    ) -> QueryExpression? {
        let (column, literal) = mayHoldUpperCase(one) ? (one, two) : (two, one)
        guard mayHoldUpperCase(column), let upper = Self.inUpperCase(literal.expression) else {
            return nil
        }
        let list = QueryExpression.Kind.isIn(column.expression, [literal.expression, upper])
        let isEither = column.expression.with(list)
        return comparison == .eq ? isEither : column.expression.with(.not(isEither))
    }

    /// Converts a literal to the type of the value with which it is compared.
    private func coerced(_ operand: Checked, to type: ExpressionType) throws(ODataError) -> Checked
    {
        guard case .value(let value) = operand.expression.kind, !value.isNull, type != .null,
            type != .any
        else { return operand }
        guard let fitting = LiteralCoercion.value(value, as: type) else {
            // A device may store enumeration values that its app does not declare.
            if isOnDevice, type.isEnumeration, case .string = value {
                return (operand.expression, type)
            }
            throw mismatch(Self.expectation(ExpressionType(of: value), type), operand.expression)
        }
        var expression = operand.expression
        expression.kind = .value(fitting)
        // A string that was accepted as a date has the type of a date, although its value is still
        // a string.
        guard case .string = fitting else { return (expression, ExpressionType(of: fitting)) }
        return (expression, type)
    }

    private static func expectation(_ given: ExpressionType, _ type: ExpressionType) -> String {
        guard given == .string else { return "\(type.name) is expected, but this is \(given.name)" }
        return switch type {
        case .enumeration(let members):
            "not a member of the enumeration; members: \(members.joined(separator: ", "))"
        case .dateTime: "not a date and time; 2026-11-20T20:32:22.404Z is expected"
        case .date: "not a date; 1994-10-14 is expected"
        case .time: "not a time of day; 07:14:00 is expected"
        case .guid: "not a UUID; 01234567-89ab-cdef-0123-456789abcdef is expected"
        case .binary: "not binary data; base64 is expected"
        case .null, .boolean, .integer, .number, .decimal, .string, .json, .any:
            "\(type.name) is expected, but this is a string"
        }
    }

    /// Rejects two types that cannot be compared.
    private func meet(
        _ one: ExpressionType,
        _ two: ExpressionType,
        _ comparison: Comparison,
        _ whole: QueryExpression
    ) throws(ODataError) {
        guard one != .null, two != .null, one != .any, two != .any else { return }
        let isEquality = comparison == .eq || comparison == .ne
        let hasOrder = one != .boolean && one != .json
        let isFitting =
            switch (one, two) {
            case _ where one.isNumeric && two.isNumeric: true
            case (.json, .json): false
            case _ where one == two: isEquality || hasOrder
            case (.string, .guid), (.guid, .string): true
            case _ where one.isText && two.isText: isEquality
            case (.null, _), (.boolean, _), (.integer, _), (.number, _), (.decimal, _),
                (.string, _), (.dateTime, _), (.date, _), (.time, _), (.guid, _), (.binary, _),
                (.json, _), (.enumeration, _), (.any, _):
                false
            }
        guard isFitting else {
            throw mismatch(
                "'\(comparison.rawValue)' cannot compare \(one.name) with \(two.name)",
                whole
            )
        }
    }

    /// Compares enumerations by position; turns a comparison with a literal into a list of strings.
    private func byPosition(
        _ comparison: Comparison,
        _ one: Checked,
        _ two: Checked,
        _ whole: QueryExpression
    ) -> QueryExpression {
        var result = whole
        switch (one.expression.kind, one.type, two.expression.kind, two.type) {
        case (_, .enumeration(let members), .value(.string(let literal)), _):
            result.kind = Self.list(one.expression, comparison, literal, members)
        case (.value(.string(let literal)), _, _, .enumeration(let members)):
            result.kind = Self.list(two.expression, comparison.mirrored, literal, members)
        case (_, .enumeration(let members), _, .enumeration):
            let left = QueryExpression(.position(one.expression, members))
            let right = QueryExpression(.position(two.expression, members))
            result.kind = .compare(comparison, left, right)
        default: break
        }
        return result
    }

    private static func list(
        _ operand: QueryExpression,
        _ comparison: Comparison,
        _ literal: String,
        _ members: [String]
    ) -> QueryExpression.Kind {
        let place = members.firstIndex { $0.utf8.elementsEqual(literal.utf8) } ?? members.count
        let fitting = members.enumerated().filter { comparison.holds($0.offset - place) }
        return .isIn(operand, fitting.map { QueryExpression(.value(.string($0.element))) })
    }
}

extension QueryExpression {
    fileprivate var isLiteral: Bool { if case .value = kind { true } else { false } }
}

extension Comparison {
    /// The comparison with its sides exchanged: `a lt b` is `b gt a`.
    package var mirrored: Comparison {
        switch self {
        case .eq: .eq
        case .ne: .ne
        case .lt: .gt
        case .le: .ge
        case .gt: .lt
        case .ge: .le
        }
    }

    /// Returns whether the comparison is true for an order of two values: negative, 0, or positive.
    package func holds(_ order: Int) -> Bool {
        switch self {
        case .eq: order == 0
        case .ne: order != 0
        case .lt: order < 0
        case .le: order <= 0
        case .gt: order > 0
        case .ge: order >= 0
        }
    }
}
