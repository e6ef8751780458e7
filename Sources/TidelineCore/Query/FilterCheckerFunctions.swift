// The functions of FilterChecker: which arguments each one takes.

extension FilterChecker {
    func call(
        _ function: Function,
        _ arguments: [QueryExpression],
        _ whole: QueryExpression
    ) throws(ODataError) -> Checked {
        guard function.arity.contains(arguments.count) else {
            throw mismatch("wrong number of arguments for \(function.rawValue)", whole)
        }
        var checked: [QueryExpression] = []
        for (index, argument) in arguments.enumerated() {
            checked.append(try self.argument(argument, index, of: function))
        }
        var result = whole
        result.kind = .call(function, checked)
        return (result, type(of: result))
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
        case .date, .time: return try moment(argument, [.dateTime])
        case .substring where index > 0: return try wholeNumber(argument)
        default:
            let (checked, type) = try check(argument)
            guard type.isText || type == .null || type == .any else {
                throw mismatch("a text is expected, this is \(type.name)", argument)
            }
            return checked
        }
    }

    private func moment(
        _ argument: QueryExpression,
        _ types: [ExpressionType]
    ) throws(ODataError) -> QueryExpression {
        var (checked, type) = try check(argument)
        if case .value(let value) = checked.kind, type == .string {
            // The narrow type first: a day is a date, not its midnight.
            for wanted in types.reversed() {
                guard let fitting = LiteralCoercion.value(value, as: wanted) else { continue }
                checked.kind = .value(fitting)
                return checked
            }
        }
        guard types.contains(type) || type == .null || type == .any else {
            let names = types.map(\.name).joined(separator: " or ")
            throw mismatch("\(names) is expected, this is \(type.name)", argument)
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
            throw mismatch("a whole number is expected, this is \(type.name)", argument)
        }
        return checked
    }
}
