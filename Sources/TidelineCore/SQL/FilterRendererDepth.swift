// FilterRendererDepth: limits the nesting depth of rendered SQL, and replaces expressions that nest
// too deep.
//
// SQLite's parser keeps at most 100 entries on its stack ("parser stack overflow"). A call whose
// last argument is a call keeps 5 entries, and a bracket after an operator keeps 3. Our statements
// begin with about 20 entries. `steps` returns an upper limit for an expression; DepthTests
// compares it with SQLite.

extension FilterRenderer {
    /// The maximum number of steps of an expression that is rendered as SQL; a deeper one becomes a
    /// program.
    static let stepsMax = 60

    /// Renders a condition for a separate clause, with limited depth.
    func bounded(_ expression: QueryExpression, _ mode: Mode) -> SQL {
        guard dialect.nestsShallow, steps(expression) > Self.stepsMax else {
            return condition(expression, mode)
        }
        guard case .all = expression.kind else { return program(expression, isCondition: true) }
        // Handles each part separately, so that the parts that allow it can still use an index.
        let chain = expression.chain
        let joints = Self.steps(chain: chain.count)
        let parts = chain.map { part in
            let isDeep = steps(part) + joints > Self.stepsMax
            return isDeep ? program(part, isCondition: true) : condition(part, mode)
        }
        return Self.tree(parts.map { "(\($0))" }[...], " AND ")
    }

    /// Renders a call that evaluates the expression in the same way as FilterEvaluator.
    func program(_ expression: QueryExpression, isCondition: Bool) -> SQL {
        let program = FilterProgram(expression, isCondition: isCondition, in: self)
        var arguments: [SQL] = ["\(.program(program))"]
        let columns = program.columnNames.map(column)
        if columns.count <= Self.argumentsMax {
            arguments += columns
        } else {
            for start in stride(from: 0, to: columns.count, by: Self.argumentsMax) {
                let end = min(start + Self.argumentsMax, columns.count)
                arguments.append(dialect.call("arguments", Array(columns[start..<end])))
            }
        }
        return dialect.call("program", arguments)
    }

    /// The maximum number of arguments, below SQLite's limit of 127.
    private static let argumentsMax = 100

    /// Renders a condition that reads documents; the result is never null.
    func document(_ condition: QueryExpression) -> SQL {
        let program = program(condition, isCondition: true)
        guard let candidates = candidates(for: condition) else { return program }
        return "(\(dialect.orFalse(candidates)) AND \(program))"
    }

    /// Returns a condition that is true for all rows that match a condition on documents, and for
    /// few other rows; nil if there is none.
    package func candidates(for condition: QueryExpression) -> SQL? {
        // PostgreSQL strings cannot contain the character NUL; in JSON it is an escape.
        let texts = DocumentSearch.searches(for: condition).filter { !$0.text.utf8.contains(0) }
        guard !texts.isEmpty else { return nil }
        return texts.prefix(Self.searchesMax).map { search -> SQL in
            let document = column(search.column)
            let isFound = dialect.search(document, search.text)
            return "(\(isFound) OR \(dialect.search(document, "\\")))"
        }.joined(separator: " AND ")
    }

    /// The maximum number of strings to search for; each search reads the document again.
    private static let searchesMax = 2

    /// The maximum depth of SQLite's stack for a condition that reads documents.
    static let documentSteps = 30

    /// Joins parts with an operator, as a balanced tree if there are many.
    static func tree(_ parts: ArraySlice<SQL>, _ joint: SQL) -> SQL {
        guard parts.count > chainMax else { return parts.joined(separator: joint) }
        let middle = parts.startIndex + parts.count / 2
        return "(\(tree(parts[..<middle], joint)))\(joint)(\(tree(parts[middle...], joint)))"
    }

    private static let chainMax = 32

    /// The maximum depth of SQLite's stack for a search.
    static let searchSteps = 30

    /// Returns whether a part that SQL cannot express contains a search or a condition on related
    /// rows.
    ///
    /// Such a part nests too deep or reads a JSON document. A program evaluates it, and a program
    /// cannot read another table.
    package func nestsTablesTooDeep(_ condition: QueryExpression) -> Bool {
        guard condition.readsTables, steps(condition) > Self.stepsMax else { return false }
        guard case .all = condition.kind else { return true }
        let chain = condition.chain
        let joints = Self.steps(chain: chain.count)
        return chain.contains { $0.readsTables && steps($0) + joints > Self.stepsMax }
    }

    // MARK: - Steps

    static func steps(chain count: Int) -> Int {
        var (levels, rest) = (0, count)
        while rest > chainMax {
            levels += 1
            rest = (rest + 1) / 2
        }
        return 4 + 3 * levels
    }

    /// Returns the maximum depth of SQLite's stack for the expression.
    func steps(_ expression: QueryExpression) -> Int {
        switch expression.kind {
        case .field where isCutInstant(expression): return 12
        case .field, .value: return 3
        case .all, .any:
            let parts = expression.chain
            return Self.steps(chain: parts.count) + deepest(parts)
        case .not(let operand): return 5 + steps(operand)
        // A program cannot read another table. An expression that requires such a read is rejected,
        // like an expression that nests too deep.
        case _ where expression.readsDocuments:
            return expression.readsTables ? Self.stepsMax + 1 : Self.documentSteps
        case .negate(let operand): return 5 + steps(operand)
        case .compare(_, let left, let right): return 10 + deepest([left, right])
        case .localizedCompare(_, let left, let right, _): return 12 + deepest([left, right])
        case .arithmetic(_, let left, let right): return 6 + deepest([left, right])
        case .call(_, let arguments): return 8 + deepest(arguments)
        case .position(let operand, _), .orElse(let operand, _): return 10 + steps(operand)
        case .isIn(let operand, let elements):
            guard listValues(operand, elements) == nil else { return 12 + steps(operand) }
            // The operand is repeated for each element, so lists inside lists would double the text
            // at each level.
            guard operand.isLeaf else { return Self.stepsMax + 1 }
            return 14 + Self.steps(chain: elements.count) + deepest(elements)
        case .member, .elementCount, .anyElement, .element: return Self.documentSteps
        case .search: return Self.searchSteps
        case .related(let rows): return Self.selectSteps + steps(ofRelated: rows)
        }
    }

    private func deepest(_ parts: [QueryExpression]) -> Int {
        parts.reduce(0) { max($0, steps($1)) }
    }
}

extension QueryExpression {
    fileprivate var isLeaf: Bool {
        switch kind {
        case .field, .value: true
        case .compare, .all, .any, .not, .arithmetic, .negate, .call, .isIn, .position, .orElse,
            .member, .elementCount, .anyElement, .element, .search, .related, .localizedCompare:
            false
        }
    }
}

extension FilterRenderer {
    /// The maximum depth of SQLite's stack for a SELECT in a list, excluding its condition.
    static let selectSteps = 14

    /// Renders a condition on the rows of another table, whose columns hide the columns of this
    /// table.
    func related(_ rows: RelatedRows, _ mode: Mode) -> SQL {
        // The store's FilterChecker has already rejected conditions on unknown tables.
        guard let schema = rows.schema else { return dialect.constant(false) }
        let key = Identifier(rows.key)
        var sql: SQL = """
            \(column(rows.column)) IN (SELECT \(key) FROM \(Identifier(schema.name)) WHERE \(key) IS NOT NULL
            """
        if let condition = rows.condition {
            let other = FilterRenderer(schema: schema, dateUnit: dateUnit, dialect: dialect)
            let isDeep = other.steps(condition) > Self.documentSteps && !condition.readsTables
            let rendered =
                isDeep
                ? other.program(condition, isCondition: true) : other.condition(condition, .loose)
            sql.append(" AND (\(rendered))")
        }
        sql.append(")")
        return mode == .strict ? dialect.orFalse(sql) : sql
    }

    /// Returns the maximum depth of SQLite's stack for the condition on the other table.
    func steps(ofRelated rows: RelatedRows) -> Int {
        guard let schema = rows.schema, let condition = rows.condition else { return 0 }
        let other = FilterRenderer(schema: schema, dateUnit: dateUnit, dialect: dialect)
        let steps = other.steps(condition)
        return condition.readsTables ? steps : min(steps, Self.documentSteps)
    }
}
