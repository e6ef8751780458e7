// FilterProgram: expressions that cannot be written as SQL.
//
// FilterRenderer creates a program for an expression that nests deeper than the database's parser
// allows. The program is bound as a pointer, like a value. The other arguments of the call are the
// columns that the program uses.

/// An expression that a database evaluates in one call, in the same way as ``FilterEvaluator``.
package final class FilterProgram: Sendable {
    private let expression: QueryExpression
    private let columns: [Column]
    private let places: [String: Int]
    private let unit: FilterRenderer.DateUnit
    /// Whether the program returns 0 or 1 instead of a value.
    private let isCondition: Bool
    private let nodes: Int
    private let patterns: [[UInt8]: TextPattern]

    private struct Column: Hashable {
        let name: String
        let type: ExpressionType
    }

    package init(
        _ expression: QueryExpression,
        isCondition: Bool,
        in renderer: FilterRenderer
    ) {
        let expression =
            renderer.dateUnit == .microseconds ? expression.namingExactUpdates : expression
        self.expression = expression
        self.isCondition = isCondition
        unit = renderer.dateUnit
        var columns: [Column] = []
        var places: [String: Int] = [:]
        var patterns: [[UInt8]: TextPattern] = [:]
        nodes = expression.forEachNode { node in
            switch node.kind {
            case .field(let name) where places[name] == nil:
                places[name] = columns.count
                let column = StoredInstants.column(name)
                let type = QueryExpression(.field(column)).type(in: renderer.schema)
                columns.append(Column(name: column, type: type))
            case .call(.matchesPattern, let arguments):
                guard case .value(.string(let text)) = arguments[1].kind else { break }
                patterns[Array(text.utf8)] = .search(text)
            case .field, .value, .compare, .all, .any, .not, .arithmetic, .negate, .call, .isIn,
                .position, .orElse, .member, .elementCount, .anyElement, .element, .search,
                .related, .localizedCompare:
                break
            }
        }
        self.patterns = patterns
        self.columns = columns
        self.places = places
    }

    /// The columns whose values are the arguments, in this order.
    package var columnNames: [String] { columns.map(\.name) }

    /// Returns the result for the row with these column values: a value, or 0 or 1 for a condition.
    package func evaluate(_ arguments: [SQLValue], _ watch: EvaluationWatch?) -> SQLValue {
        precondition(arguments.count == columns.count, "one argument for each column")
        // A node costs about as much as reading 64 bytes.
        if let watch, watch.isOver(beforeReading: 64 * nodes) { return .null }
        let evaluator = FilterEvaluator(watch: watch, patterns: patterns) {
            [places, columns, unit] name in
            guard let place = places[name] else { return .null }
            guard unit == .milliseconds else {
                return StoredInstants.value(
                    of: name,
                    columns[place].type,
                    stored: arguments[place]
                )
            }
            return SQLFunctions.value(arguments[place], as: columns[place].type, unit: unit)
        }
        if isCondition { return .integer(evaluator.matches(expression) ? 1 : 0) }
        return SQLFunctions.plain(evaluator.evaluate(expression))
    }
}

extension FilterProgram: Hashable {
    package static func == (left: FilterProgram, right: FilterProgram) -> Bool {
        left.expression == right.expression && left.columns == right.columns
            && left.unit == right.unit && left.isCondition == right.isCondition
    }

    package func hash(into hasher: inout Hasher) { hasher.combine(expression) }
}

extension QueryExpression {
    /// The number of nodes.
    var nodeCount: Int { forEachNode { _ in } }

    /// Calls a closure with each node and returns the number of nodes.
    fileprivate func forEachNode(_ visit: (QueryExpression) -> Void) -> Int {
        visit(self)
        switch kind {
        case .field, .value, .element, .search, .related: return 1
        case .not(let operand), .negate(let operand), .position(let operand, _),
            .orElse(let operand, _), .member(let operand, _), .elementCount(let operand):
            return 1 + operand.forEachNode(visit)
        case .anyElement(let list, _, let condition):
            return 1 + list.forEachNode(visit) + condition.forEachNode(visit)
        case .compare(_, let left, let right), .arithmetic(_, let left, let right),
            .localizedCompare(_, let left, let right, _):
            return 1 + left.forEachNode(visit) + right.forEachNode(visit)
        case .all(let parts), .any(let parts), .call(_, let parts):
            return parts.reduce(1) { $0 + $1.forEachNode(visit) }
        case .isIn(let operand, let parts):
            return parts.reduce(1 + operand.forEachNode(visit)) { $0 + $1.forEachNode(visit) }
        }
    }
}
