// ODataCalls: parses the calls in a query: functions, and calls that name a type.

extension ODataParser {
    /// Parses the rest of a call; the current token is its opening parenthesis.
    mutating func call(_ name: String, _ position: Int) throws(ODataError) -> Node {
        switch dialect == .v4 ? name.lowercased() : name {
        case "cast": return try cast(position)
        case "isof": return try isOf(position)
        case "mindatetime": return try instant(.earliest, position)
        case "maxdatetime": return try instant(.latest, position)
        default: break
        }
        let function = try function(name, position)
        return try make(function, name, try arguments(), position)
    }

    private mutating func function(_ name: String, _ position: Int) throws(ODataError) -> Function {
        guard let function = Function(oDataName: name, dialect: dialect) else {
            throw failure("unknown function", at: position)
        }
        if function == .replace {
            guard !isInReplace else {
                throw failure("'replace' cannot be nested in 'replace'", at: position)
            }
            isInReplace = true
        }
        return function
    }

    private mutating func make(
        _ function: Function,
        _ name: String,
        _ arguments: [Node],
        _ position: Int
    ) throws(ODataError) -> Node {
        guard function.arity.contains(arguments.count) else {
            throw failure(
                "\(name) takes \(Self.count(function.arity)), not \(arguments.count)",
                at: position
            )
        }
        if function == .replace {
            isInReplace = false
            try checkReplacement(arguments[2])
        }
        if function == .matchesPattern { try checkPattern(arguments[1]) }
        let isReversed = function == .contains && name.lowercased() == "substringof"
        let operands = isReversed ? arguments.reversed() : arguments
        return try make(.call(function, operands.map(\.expression)), position, over: operands)
    }

    private mutating func arguments() throws(ODataError) -> [Node] {
        try enter()
        var arguments: [Node] = []
        if token != .close {
            repeat {
                arguments.append(try expression())
            } while try nextArgument(arguments.count)
        }
        leave()
        guard try skip(.close) else { throw failure("',' or ')' is expected") }
        return arguments
    }

    private mutating func nextArgument(_ count: Int) throws(ODataError) -> Bool {
        guard count < 8 else { throw failure("too many arguments") }
        return try skip(.comma)
    }

    private static func count(_ arity: ClosedRange<Int>) -> String {
        if arity.count > 1 { return "\(arity.lowerBound) or \(arity.upperBound) arguments" }
        return arity.lowerBound == 1 ? "1 argument" : "\(arity.lowerBound) arguments"
    }

    /// Checks the third argument of `replace`; like the original servers, accepts only a short
    /// constant.
    private func checkReplacement(_ node: Node) throws(ODataError) {
        let limit = limits.replacementScalarsMax
        guard case .value(.string(let text)) = node.expression.kind,
            text.unicodeScalars.count <= limit
        else {
            throw failure(
                "the third argument of replace must be a string constant of at most \(limit) characters",
                at: node.expression.position
            )
        }
    }

    /// Rejects an invalid pattern, even if the pattern would never be matched against a row.
    private func checkPattern(_ node: Node) throws(ODataError) {
        let position = node.expression.position
        guard case .value(.string(let text)) = node.expression.kind else {
            throw failure(
                "the second argument of matchesPattern must be a string constant",
                at: position
            )
        }
        do {
            _ = try TextPattern(searching: text)
        } catch {
            throw failure(
                "the pattern cannot be read: \(error.message), at character \(error.position) of it",
                at: position
            )
        }
    }

    private mutating func instant(
        _ timestamp: Timestamp,
        _ position: Int
    ) throws(ODataError) -> Node {
        guard try arguments().isEmpty else {
            throw failure("the function takes no arguments", at: position)
        }
        return try make(.value(.date(timestamp.date)), position)
    }

    // MARK: - cast(value, Edm.Type), isof(value, Edm.Type)

    private mutating func cast(_ position: Int) throws(ODataError) -> Node {
        try enter()
        let operand = try expression()
        guard try skip(.comma) else { throw failure("',' is expected; then a type like Edm.Date") }
        let type = try type()
        leave()
        return try cast(operand, to: type, position)
    }

    /// Casts a literal at parse time, so that an invalid literal is rejected; other operands are
    /// cast for each row.
    private func cast(
        _ operand: Node,
        to type: EdmType,
        _ position: Int
    ) throws(ODataError) -> Node {
        guard case .value(let value) = operand.expression.kind else {
            return try call(.cast, operand, type, position)
        }
        let result = ScalarCasts.cast(value, to: type)
        guard value.isNull || !result.isNull else {
            throw failure(
                "the literal is not a value of \(type.rawValue)",
                at: operand.expression.position
            )
        }
        return try make(.value(result), position)
    }

    private mutating func isOf(_ position: Int) throws(ODataError) -> Node {
        try enter()
        // With one argument, `isof` tests the row itself, which never has a primitive type.
        var ahead = self
        if (try? ahead.type()) != nil {
            self = ahead
            leave()
            return try make(.value(.bool(false)), position)
        }
        let operand = try expression()
        guard try skip(.comma) else { throw failure("',' is expected; then a type like Edm.Date") }
        let type = try type()
        leave()
        return try call(.isof, operand, type, position)
    }

    private func call(
        _ function: Function,
        _ operand: Node,
        _ type: EdmType,
        _ position: Int
    ) throws(ODataError) -> Node {
        let name = QueryExpression(.value(.string(type.rawValue)), at: position)
        return try make(.call(function, [operand.expression, name]), position, over: [operand])
    }

    /// Parses the last argument (a type) and the closing parenthesis.
    private mutating func type() throws(ODataError) -> EdmType {
        let start = position
        let name = try typeName()
        guard token == .close else { throw failure("')' is expected") }
        guard let type = EdmType(rawValue: name) else {
            throw failure("unknown type; one like Edm.Date or Edm.Guid is expected", at: start)
        }
        try advance()
        return type
    }

    private mutating func typeName() throws(ODataError) -> String {
        if case .literal(.string(let quoted)) = token {
            try advance()
            return quoted
        }
        guard case .name(let space) = token else { throw failure("a type is expected") }
        try advance()
        guard try skip(.dot), case .name(let name) = token else {
            throw failure("a type like Edm.Date is expected")
        }
        try advance()
        return space + "." + name
    }
}
