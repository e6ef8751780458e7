// ODataParser+Operands: parses operands: literals, columns and paths, calls, groups, and the signs
// before them.

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
        case .end, .literal, .close, .comma, .slash, .colon, .dot, .star:
            return try literal(position)
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
        case .name, .open, .close, .comma, .slash, .colon, .dot, .minus, .star:
            throw failure("an operand is expected")
        }
    }

    private mutating func column(_ name: String, _ position: Int) throws(ODataError) -> Node {
        switch name {
        case "null": return try make(.value(.null), position)
        case "true": return try make(.value(.bool(true)), position)
        case "false": return try make(.value(.bool(false)), position)
        default:
            if name == "geo", token == .dot {
                throw failure("geo functions are not supported", at: position)
            }
            guard ODataOperator(name) == nil else {
                throw failure("an operand is expected before '\(name)'", at: position)
            }
            let start: QueryExpression.Kind =
                variables.lastIndex(of: name).map { .element($0) } ?? .field(name)
            let node = try make(start, position)
            return token == .slash ? try path(after: node) : node
        }
    }
    // MARK: - Paths: address/city, tags/any(t:t eq 'urgent'), visits/$count

    /// Parses the rest of a path; the current token is its first slash.
    private mutating func path(after start: Node) throws(ODataError) -> Node {
        var node = start
        while try skip(.slash) {
            try count()
            let position = position
            let name = try takeName()
            if name == "$count" {
                return try make(.elementCount(node.expression), position, over: [node])
            }
            if token == .open { return try elements(of: node, name, position) }
            node = Node(expression: .member(name, of: node.expression), depth: node.depth)
        }
        return node
    }

    /// Parses `any()`, `any(x:…)` or `all(x:…)` after its name; the current token is the opening
    /// parenthesis.
    private mutating func elements(
        of list: Node,
        _ name: String,
        _ position: Int
    ) throws(ODataError) -> Node {
        let word = keyword(name)
        guard word == "any" || word == "all" else {
            throw failure("'any' or 'all' is expected before '('", at: position)
        }
        // Otherwise, a condition could compare each element of one array with each element of
        // another.
        guard variables.isEmpty || list.expression.isOfElement else {
            throw failure(
                "a nested '\(word)' must begin with the variable of the outer one",
                at: position
            )
        }
        try enter()
        let condition = try elementCondition(word)
        leave()
        guard try skip(.close) else { throw failure("')' is expected after the condition") }
        guard word == "all" else {
            return try make(
                .anyElement(list.expression, variables.count, condition.expression),
                position,
                over: [list, condition]
            )
        }
        let isOther = try make(.not(condition.expression), position, over: [condition])
        let isAny = try make(
            .anyElement(list.expression, variables.count, isOther.expression),
            position,
            over: [list, isOther]
        )
        return try make(.not(isAny.expression), position, over: [isAny])
    }

    /// Parses `x:condition`; if it is missing, each element satisfies the condition.
    private mutating func elementCondition(_ word: String) throws(ODataError) -> Node {
        if token == .close, word == "any" { return try make(.value(.bool(true)), position) }
        guard case .name(let variable) = token else {
            throw failure("a variable is expected, as in \(word)(x:x eq 1)")
        }
        guard !variables.contains(variable) else {
            throw failure("the variable '\(variable)' is in use")
        }
        try advance()
        guard try skip(.colon) else { throw failure("':' is expected after the variable") }
        variables.append(variable)
        let condition = try expression()
        variables.removeLast()
        return condition
    }
}

extension QueryExpression {
    /// Whether the expression is an array element or a member of one.
    var isOfElement: Bool {
        switch kind {
        case .element: true
        case .member(let document, _): document.isOfElement
        case .field, .value, .compare, .all, .any, .not, .arithmetic, .negate, .call, .isIn,
            .position, .orElse, .elementCount, .anyElement, .search, .related, .localizedCompare:
            false
        }
    }
}
