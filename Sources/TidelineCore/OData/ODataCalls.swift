// The calls of a query text: functions, `cast` of a literal, `now`.

import Foundation

extension ODataParser {
    /// The rest of a call; the token is its opening parenthesis.
    mutating func call(_ name: String, _ position: Int) throws(ODataError) -> Node {
        switch dialect == .v4 ? name.lowercased() : name {
        case "cast": return try cast(position)
        case "now": return try currentTime(position)
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
                throw failure("'replace' cannot stand within 'replace'", at: position)
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
                "\(name) takes \(Self.count(function.arity)), here are \(arguments.count)",
                at: position
            )
        }
        if function == .replace {
            isInReplace = false
            try checkReplacement(arguments[2])
        }
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

    /// The originals take a short constant only; nobody sends another thing.
    private func checkReplacement(_ node: Node) throws(ODataError) {
        let limit = limits.replacementScalarsMax
        guard case .value(.string(let text)) = node.expression.kind,
            text.unicodeScalars.count <= limit
        else {
            throw failure(
                "the third argument of replace is a text constant of at most \(limit) characters",
                at: node.expression.position
            )
        }
    }

    private mutating func currentTime(_ position: Int) throws(ODataError) -> Node {
        try advance()
        guard try skip(.close) else { throw failure("')' is expected; now takes no arguments") }
        guard let now else { throw failure("now() is not supported here", at: position) }
        return try make(.value(.date(now)), position)
    }

    // MARK: - cast(literal, Edm.Type)

    private mutating func cast(_ position: Int) throws(ODataError) -> Node {
        try advance()
        let operand = try expression()
        guard case .value(let value) = operand.expression.kind else {
            throw failure("only a literal can be cast", at: operand.expression.position)
        }
        guard try skip(.comma) else { throw failure("',' is expected; then a type like Edm.Date") }
        let typePosition = self.position
        let name = try typeName()
        guard try skip(.close) else { throw failure("')' is expected") }
        guard let type = Self.type(named: name) else {
            throw failure(
                "unknown type; one like Edm.Date or Edm.Guid is expected",
                at: typePosition
            )
        }
        guard let result = Self.cast(value, to: type) else {
            throw failure("the literal is not a value of \(name)", at: operand.expression.position)
        }
        return try make(.value(result), position)
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

    private static func type(named name: String) -> ExpressionType? {
        switch name {
        case "Edm.String": .string
        case "Edm.Boolean": .boolean
        case "Edm.Byte", "Edm.SByte", "Edm.Int16", "Edm.Int32", "Edm.Int64": .integer
        case "Edm.Single", "Edm.Double": .number
        case "Edm.Decimal": .decimal
        case "Edm.Guid": .guid
        case "Edm.Date": .date
        case "Edm.TimeOfDay", "Edm.Time": .time
        case "Edm.DateTime", "Edm.DateTimeOffset": .dateTime
        case "Edm.Binary": .binary
        default: nil
        }
    }

    private static func cast(_ value: Value, to type: ExpressionType) -> Value? {
        guard let result = LiteralCoercion.value(value, as: type) else { return nil }
        switch (result, type) {
        case (.null, _): return result
        case (.integer(let whole), .number): return .number(Double(whole))
        // Coercion leaves numbers alone that do not fit; a cast has to give its type.
        case (.number, .integer), (.decimal, .integer), (.number, .decimal): return nil
        default: return result
        }
    }
}
