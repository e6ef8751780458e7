// ODataParser+Operands: parses the operands between operators: literals, columns, calls, groups,
// and signs before them.

extension ODataParser {
    mutating func unary() throws(ODataError) -> Node {
        try count()
        let position = position
        switch token {
        case .minus: return try prefixed(position) { .negate($0) }
        case .name(let word) where keyword(word) == "not":
            return try prefixed(position) { .not($0) }
        case .open: return try group(position)
        case .name: return try named(position)
        default: return try literal(position)
        }
    }

    private mutating func prefixed(
        _ position: Int,
        _ kind: (QueryExpression) -> QueryExpression.Kind
    ) throws(ODataError) -> Node {
        try enter()
        let operand = try unary()
        leave()
        return try make(kind(operand.expression), position, over: [operand])
    }

    private mutating func group(_ position: Int) throws(ODataError) -> Node {
        try enter()
        let inner = try expression()
        leave()
        try close(position)
        return inner
    }

    private mutating func close(_ position: Int) throws(ODataError) {
        guard try skip(.close) else {
            throw failure("')' is expected; it closes the '(' at byte \(position)")
        }
    }

    private mutating func named(_ position: Int) throws(ODataError) -> Node {
        let name = try takeName()
        guard token == .open else { return try column(name, position) }
        return try call(name, position)
    }

    mutating func takeName() throws(ODataError) -> String {
        guard case .name(let name) = token else { throw failure("a name is expected") }
        try advance()
        return name
    }

    private mutating func literal(_ position: Int) throws(ODataError) -> Node {
        switch token {
        case .literal(let value):
            try advance()
            return try make(.value(value), position)
        case .end: throw failure("the text ends where an operand is expected")
        default: throw failure("an operand is expected")
        }
    }

    private func column(_ name: String, _ position: Int) throws(ODataError) -> Node {
        switch name {
        case "null": return try make(.value(.null), position)
        case "true": return try make(.value(.bool(true)), position)
        case "false": return try make(.value(.bool(false)), position)
        default:
            guard token != .slash else { throw failure("paths into a column are not supported") }
            if name == "geo", token == .dot {
                throw failure("no column holds a place: there are no geo functions", at: position)
            }
            guard ODataOperator(name) == nil else {
                throw failure("an operand is expected before '\(name)'", at: position)
            }
            return try make(.field(name), position)
        }
    }
}
