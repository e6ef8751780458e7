// FilterCheckerFunctions: checks the functions in a filter and their arguments.

extension FilterChecker {
    func call(
        _ function: Function,
        _ arguments: [QueryExpression],
        _ whole: QueryExpression
    ) throws(ODataError) -> Checked {
        guard function.arity.contains(arguments.count) else {
            throw mismatch("wrong number of arguments for \(function.rawValue)", whole)
        }
        switch function {
        case .now: return try currentTime(whole)
        case .cast: return try cast(arguments, whole)
        case .isof: return try isOf(arguments, whole)
        case .has: return try has(arguments, whole)
        case .contains, .localizedContains, .localizedCaseInsensitiveContains, .startswith,
            .endswith, .matchesPattern, .length,
            .indexof, .substring, .replace, .tolower, .toupper, .trim, .concat, .year, .month,
            .day, .hour, .minute, .second, .totaloffsetminutes, .fractionalseconds, .date, .time,
            .floor, .ceiling, .round, .roundAway:
            return try plain(function, arguments, whole)
        }
    }

    private func plain(
        _ function: Function,
        _ arguments: [QueryExpression],
        _ whole: QueryExpression
    ) throws(ODataError) -> Checked {
        var checked: [QueryExpression] = []
        for (index, argument) in arguments.enumerated() {
            checked.append(try self.argument(argument, index, of: function))
        }
        var result = whole
        result.kind = .call(function, checked)
        return (result, type(of: result))
    }

    private func currentTime(_ whole: QueryExpression) throws(ODataError) -> Checked {
        guard let now else {
            throw ODataError(.unsupported, "now() is not available here", at: whole.position)
        }
        return (whole.with(.value(.date(now))), .dateTime)
    }

    private func cast(
        _ arguments: [QueryExpression],
        _ whole: QueryExpression
    ) throws(ODataError) -> Checked {
        guard let target = arguments.edmType else { throw mismatch("a type is expected", whole) }
        let (checked, type) = try check(arguments[0])
        guard target.canBeCast(from: type) else {
            throw mismatch("\(type.name) cannot be cast to \(target.rawValue)", arguments[0])
        }
        return (whole.with(.call(.cast, [checked, arguments[1]])), target.type)
    }

    /// Evaluates `isof` to a constant if the column type decides the result; the range of an
    /// integer is checked for each row.
    private func isOf(
        _ arguments: [QueryExpression],
        _ whole: QueryExpression
    ) throws(ODataError) -> Checked {
        guard let target = arguments.edmType else { throw mismatch("a type is expected", whole) }
        let (checked, type) = try check(arguments[0])
        if !target.mayHold(type) { return (whole.with(.value(.bool(false))), .boolean) }
        if type == .any || target.type == .integer && target != .int64 {
            return (whole.with(.call(.isof, [checked, arguments[1]])), .boolean)
        }
        let null = QueryExpression(.value(.null), at: whole.position)
        return (whole.with(.compare(.ne, checked, null)), .boolean)
    }

    /// Replaces `has` with `eq`, because a column contains a single enumeration value.
    private func has(
        _ arguments: [QueryExpression],
        _ whole: QueryExpression
    ) throws(ODataError) -> Checked {
        let type = try check(arguments[0]).type
        guard type.isEnumeration || type == .any else {
            throw mismatch("'has' takes an enumeration, but this is \(type.name)", arguments[0])
        }
        guard case .value(.string) = arguments[1].kind else {
            throw mismatch("'has' takes a member of the enumeration", arguments[1])
        }
        return (try compare(.eq, arguments[0], arguments[1], whole), .boolean)
    }

    private func argument(
        _ argument: QueryExpression,
        _ index: Int,
        of function: Function
    ) throws(ODataError) -> QueryExpression {
        switch function {
        case .floor, .ceiling, .round, .roundAway: return try number(argument).expression
        case .year, .month, .day: return try moment(argument, [.dateTime, .date])
        case .hour, .minute, .second, .fractionalseconds:
            return try moment(argument, [.dateTime, .time])
        case .date, .time, .totaloffsetminutes: return try moment(argument, [.dateTime])
        case .substring: return try index > 0 ? wholeNumber(argument) : text(argument)
        case .contains, .localizedContains, .localizedCaseInsensitiveContains, .startswith,
            .endswith, .matchesPattern, .length,
            .indexof, .replace, .tolower, .toupper, .trim, .concat:
            return try text(argument)
        case .now, .cast, .isof, .has: throw mismatch("no argument is expected", argument)
        }
    }

    private func text(_ argument: QueryExpression) throws(ODataError) -> QueryExpression {
        let (checked, type) = try check(argument)
        guard type.isText || type == .null || type == .any else {
            throw mismatch("a string is expected, but this is \(type.name)", argument)
        }
        return checked
    }

    private func moment(
        _ argument: QueryExpression,
        _ types: [ExpressionType]
    ) throws(ODataError) -> QueryExpression {
        var (checked, type) = try check(argument)
        if case .value(let value) = checked.kind, type == .string {
            // The narrower type comes first, because a date is not the same as midnight on that
            // date.
            for wanted in types.reversed() {
                guard let fitting = LiteralCoercion.value(value, as: wanted) else { continue }
                checked.kind = .value(fitting)
                return checked
            }
        }
        guard types.contains(type) || type == .null || type == .any else {
            let names = types.map(\.name).joined(separator: " or ")
            throw mismatch("\(names) is expected, but this is \(type.name)", argument)
        }
        return checked
    }

    private func wholeNumber(_ argument: QueryExpression) throws(ODataError) -> QueryExpression {
        var (checked, type) = try check(argument)
        if case .value(let value) = checked.kind,
            let fitting = LiteralCoercion.value(value, as: .integer)
        {
            checked.kind = .value(fitting)
            type = ExpressionType(of: fitting)
        }
        guard type == .integer || type == .null || type == .any else {
            throw mismatch("a whole number is expected, but this is \(type.name)", argument)
        }
        return checked
    }
}
