// ODataParser: parses the text of query options into query expressions.
//
// The parser uses precedence climbing: one loop handles all chains. It recurses only for
// parentheses, arguments and unary operators, up to `ODataLimits.depthMax`. FilterChecker checks
// types and column names.

/// A parser that turns `$filter`, `$orderby` and `$select` into query expressions.
package struct ODataParser {
    /// An expression with the depth of its tree.
    struct Node {
        var expression: QueryExpression
        var depth: Int
    }

    let dialect: ODataDialect
    let limits: ODataLimits
    private(set) var lexer: ODataLexer
    private(set) var token = ODataLexer.Token.end
    private var nodes = 0
    private var nesting = 0
    var isInReplace = false
    /// The variables of the enclosing conditions, outermost first.
    var variables: [String] = []

    private init(
        _ text: String,
        _ dialect: ODataDialect,
        _ limits: ODataLimits
    ) throws(ODataError) {
        guard text.utf8.count <= limits.textBytesMax else {
            throw ODataError(
                .tooLarge,
                "the text is longer than \(limits.textBytesMax) bytes",
                at: limits.textBytesMax
            )
        }
        self.dialect = dialect
        self.limits = limits
        lexer = ODataLexer(text, dialect: dialect)
        try advance()
    }

    /// Parses a filter.
    package static func filter(
        _ text: String,
        dialect: ODataDialect,
        limits: ODataLimits = ODataLimits()
    ) throws(ODataError) -> QueryExpression {
        var parser = try ODataParser(text, dialect, limits)
        let filter = try parser.expression()
        try parser.end(of: "filter")
        return filter.expression
    }

    /// Parses an order: expressions, each optionally followed by `asc` or `desc`.
    package static func orderBy(
        _ text: String,
        dialect: ODataDialect,
        limits: ODataLimits = ODataLimits()
    ) throws(ODataError) -> [SortKey] {
        var parser = try ODataParser(text, dialect, limits)
        var keys: [SortKey] = []
        repeat {
            guard keys.count < limits.orderKeysMax else {
                throw parser.tooLarge("an order has at most \(limits.orderKeysMax) keys")
            }
            let key = try parser.expression()
            var isAscending = true
            if case .name(let word) = parser.token {
                let direction = parser.keyword(word)
                guard direction == "asc" || direction == "desc" else {
                    throw parser.failure("'asc', 'desc' or ',' is expected")
                }
                isAscending = direction == "asc"
                try parser.advance()
            }
            keys.append(SortKey(key.expression, ascending: isAscending))
        } while try parser.skip(.comma)
        try parser.end(of: "order")
        return keys
    }

    /// Parses a selection of columns; nil for `*`, which selects all columns.
    package static func select(
        _ text: String,
        dialect: ODataDialect,
        limits: ODataLimits = ODataLimits()
    ) throws(ODataError) -> [String]? {
        var parser = try ODataParser(text, dialect, limits)
        if parser.token == .star {
            try parser.advance()
            try parser.end(of: "selection")
            return nil
        }
        var names: [String] = []
        repeat {
            guard case .name(let name) = parser.token else {
                throw parser.failure("a column name is expected")
            }
            guard names.count < limits.selectNamesMax else {
                throw parser.tooLarge("a selection has at most \(limits.selectNamesMax) names")
            }
            if !names.contains(name) { names.append(name) }
            try parser.advance()
        } while try parser.skip(.comma)
        try parser.end(of: "selection")
        return names
    }

    // MARK: - Tokens

    var position: Int { lexer.start }

    func failure(_ message: String, at position: Int? = nil) -> ODataError {
        ODataError(.syntax, message, at: position ?? lexer.start)
    }

    func tooLarge(_ message: String) -> ODataError {
        ODataError(.tooLarge, message, at: lexer.start)
    }

    /// Returns a keyword in the letter case of the grammar, because v4 ignores letter case.
    func keyword(_ word: String) -> String { dialect == .v4 ? word.lowercased() : word }

    mutating func advance() throws(ODataError) {
        token = try lexer.next()
    }

    mutating func skip(_ wanted: ODataLexer.Token) throws(ODataError) -> Bool {
        guard token == wanted else { return false }
        try advance()
        return true
    }

    private func end(of what: String) throws(ODataError) {
        switch token {
        case .end: return
        case .close: throw failure("a ')' without '('")
        case .name(let word) where dialect == .v3 && ODataOperator(word.lowercased()) != nil:
            throw failure("operators are written in lower case: '\(word.lowercased())'")
        case .name, .literal, .open, .comma, .slash, .colon, .dot, .minus, .star:
            throw failure("an operator or the end of the \(what) is expected")
        }
    }

    // MARK: - Nodes

    func make(
        _ kind: QueryExpression.Kind,
        _ position: Int,
        over parts: [Node] = []
    ) throws(ODataError) -> Node {
        let depth = 1 + parts.reduce(0) { max($0, $1.depth) }
        guard depth <= limits.depthMax else {
            throw ODataError(
                .tooLarge,
                "the expression is nested deeper than \(limits.depthMax) levels",
                at: position
            )
        }
        return Node(expression: QueryExpression(kind, at: position), depth: depth)
    }

    mutating func count() throws(ODataError) {
        nodes += 1
        guard nodes <= limits.nodesMax else {
            throw tooLarge("the expression has more than \(limits.nodesMax) parts")
        }
    }

    // The functions below call each other once per level. They are small and do not build messages,
    // because a debug build keeps every temporary value in the stack frame.

    mutating func expression() throws(ODataError) -> Node {
        try chain(1)
    }

    /// Parses operands joined by operators with at least this precedence.
    private mutating func chain(_ minimum: Int) throws(ODataError) -> Node {
        var left = try unary()
        while let (next, precedence) = try nextOperator(minimum) {
            left = try join(left, next, precedence)
        }
        return left
    }

    private mutating func nextOperator(
        _ minimum: Int
    ) throws(ODataError) -> (ODataOperator, Int)? {
        guard case .name(let word) = token, let next = ODataOperator(keyword(word)) else {
            return nil
        }
        let precedence = next.precedence(in: dialect)
        guard precedence >= minimum else { return nil }
        try count()
        try advance()
        return (next, precedence)
    }

    private mutating func join(
        _ left: Node,
        _ next: ODataOperator,
        _ precedence: Int
    ) throws(ODataError) -> Node {
        if case .isIn = next { return try list(of: left) }
        var parts = [left]
        repeat {
            parts.append(try chain(precedence + 1))
        } while try skipJoint(next)
        return try joined(parts, by: next)
    }

    /// Skips the operator and returns true if the next operator continues a chain of `and` or `or`.
    private mutating func skipJoint(_ joint: ODataOperator) throws(ODataError) -> Bool {
        guard joint == .all || joint == .any, case .name(let word) = token,
            ODataOperator(keyword(word)) == joint
        else { return false }
        try advance()
        return true
    }

    private func joined(_ parts: [Node], by joint: ODataOperator) throws(ODataError) -> Node {
        let expressions = parts.map(\.expression)
        let kind: QueryExpression.Kind =
            switch joint {
            case .all: .all(expressions)
            case .any: .any(expressions)
            case .compare(let comparison): .compare(comparison, expressions[0], expressions[1])
            case .arithmetic(let operation):
                .arithmetic(operation, expressions[0], expressions[1])
            case .isIn: .isIn(expressions[0], Array(expressions.dropFirst()))
            case .has: .call(.has, expressions)
            }
        return try make(kind, parts[0].expression.position, over: parts)
    }

    private mutating func list(of operand: Node) throws(ODataError) -> Node {
        guard try skip(.open) else { throw failure("'(' is expected after 'in'") }
        var parts = [operand]
        if try skip(.close) { return try joined(parts, by: .isIn) }
        repeat {
            guard parts.count <= limits.listElementsMax else {
                throw tooLarge("a list has at most \(limits.listElementsMax) elements")
            }
            let before = nodes
            let part = try expression()
            // Literals count toward the limit for the length of the list instead.
            if case .value = part.expression.kind { nodes = before }
            parts.append(part)
        } while try skip(.comma)
        guard try skip(.close) else { throw failure("',' or ')' is expected") }
        return try joined(parts, by: .isIn)
    }

    /// Enters a nesting level: the text after a parenthesis or a unary operator.
    mutating func enter() throws(ODataError) {
        nesting += 1
        guard nesting <= limits.depthMax else {
            throw tooLarge("nested deeper than \(limits.depthMax) levels")
        }
        try advance()
    }

    mutating func leave() {
        nesting -= 1
    }
}
