// FilterProgram: an expression that a database evaluates in one call, as FilterEvaluator does.
//
// FilterRenderer makes one of what nests deeper than the database's parser reads. It is bound like
// a value, as a pointer; the columns that it names are the other arguments of the call.

package final class FilterProgram: Sendable {
    private let expression: QueryExpression
    private let columns: [Column]
    private let places: [String: Int]
    private let unit: FilterRenderer.DateUnit
    /// Whether it gives 0 or 1 instead of a value.
    private let isCondition: Bool
    private let nodes: Int

    private struct Column: Hashable {
        let name: String
        let type: ExpressionType
    }

    init(_ expression: QueryExpression, isCondition: Bool, in renderer: FilterRenderer) {
        self.expression = expression
        self.isCondition = isCondition
        unit = renderer.dateUnit
        var columns: [Column] = []
        var places: [String: Int] = [:]
        nodes = expression.forEachField { name in
            guard places[name] == nil else { return }
            places[name] = columns.count
            let type = QueryExpression(.field(name)).type(in: renderer.schema)
            columns.append(Column(name: name, type: type))
        }
        self.columns = columns
        self.places = places
    }

    /// The columns whose values are the arguments, in this order.
    var columnNames: [String] { columns.map(\.name) }

    /// The value, or 0 or 1, for the row with these columns.
    package func evaluate(_ arguments: [SQLValue], _ watch: EvaluationWatch?) -> SQLValue {
        precondition(arguments.count == columns.count, "one argument for each column")
        // A node costs about as much as the reading of 64 bytes.
        if let watch, watch.isOver(beforeReading: 64 * nodes) { return .null }
        let evaluator = FilterEvaluator(watch: watch) { [places, columns, unit] name in
            guard let place = places[name] else { return .null }
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
    /// Visits the name of each column, and counts the nodes.
    fileprivate func forEachField(_ visit: (String) -> Void) -> Int {
        switch kind {
        case .field(let name):
            visit(name)
            return 1
        case .value: return 1
        case .not(let operand), .negate(let operand), .position(let operand, _):
            return 1 + operand.forEachField(visit)
        case .compare(_, let left, let right), .arithmetic(_, let left, let right):
            return 1 + left.forEachField(visit) + right.forEachField(visit)
        case .all(let parts), .any(let parts), .call(_, let parts):
            return parts.reduce(1) { $0 + $1.forEachField(visit) }
        case .isIn(let operand, let parts):
            return parts.reduce(1 + operand.forEachField(visit)) { $0 + $1.forEachField(visit) }
        }
    }
}
