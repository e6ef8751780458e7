// FilterChecker: checks queries against a table's schema.
//
// FilterRenderer and FilterEvaluator rely on the result: every column exists under its exact name,
// every literal has the kind that its column stores, and every operand fits its operator. Without a
// schema, the checker verifies only the structure: conditions appear only where conditions are
// allowed.

package import Foundation

/// A checker of parsed queries, which replaces names and literals with the columns' exact names and
/// kinds.
package struct FilterChecker {
    /// The table; nil for rows without declared columns.
    package let schema: TableSchema?
    /// The value of `now()`; if nil, the function is rejected.
    package let now: Date?
    /// Whether the rows are on a device, which stores no deleted rows, so that `deleted` is always
    /// false.
    let isOnDevice: Bool

    package init(schema: TableSchema?, now: Date? = nil) {
        self.schema = schema
        self.now = now
        isOnDevice = false
    }

    /// Creates a checker for a device's queries of its local rows.
    package init(onDevice schema: TableSchema) {
        self.schema = schema
        now = nil
        isOnDevice = schema.hasSystemColumns
    }

    typealias Checked = (expression: QueryExpression, type: ExpressionType)

    /// Checks a condition on rows.
    package func filter(_ expression: QueryExpression) throws(ODataError) -> QueryExpression {
        try condition(expression)
    }

    /// Checks the keys of an order.
    ///
    /// Enumerations are ordered by the position of their strings.
    package func order(_ keys: [SortKey]) throws(ODataError) -> [SortKey] {
        var result: [SortKey] = []
        for key in keys {
            let (expression, type) = try check(key.expression)
            if let localized = key.localized {
                guard isOnDevice,
                    type == .string || type == .any || type == .null || type.isEnumeration
                else {
                    throw mismatch(
                        "a localized order needs a string, and works on a device only",
                        expression
                    )
                }
                result.append(SortKey(expression, ascending: key.isAscending, localized: localized))
                continue
            }
            switch type {
            case .json: throw mismatch("JSON documents have no order", expression)
            case .enumeration(let members):
                let position = QueryExpression(
                    .position(expression, members),
                    at: expression.position
                )
                result.append(SortKey(position, ascending: key.isAscending))
            case .any where schema != nil:
                throw mismatch(
                    "an order needs a type; write cast(address/city,Edm.String) for a member",
                    expression
                )
            case .null, .boolean, .integer, .number, .decimal, .string, .dateTime, .date, .time,
                .guid, .binary, .any:
                result.append(SortKey(expression, ascending: key.isAscending))
            }
        }
        return result
    }

    /// Checks the names of a selection.
    package func select(_ names: [String]) throws(ODataError) -> [String] {
        var result: [String] = []
        for name in names {
            let canonical = try column(name, at: 0).name
            if !result.contains(canonical) { result.append(canonical) }
        }
        return result
    }

    /// Checks the filter, the order, and the selection; the rest of the query stays unchanged.
    package func query(_ query: TableQuery) throws(ODataError) -> TableQuery {
        var result = query
        if let filter = query.filter { result.filter = Filter(try self.filter(filter.expression)) }
        result.order = try order(query.order)
        if let names = query.select { result.select = try select(names) }
        return result
    }

    /// Returns the type of a checked expression.
    package func type(of expression: QueryExpression) -> ExpressionType {
        expression.type(in: schema)
    }

    // MARK: - Expressions

    func mismatch(_ message: String, _ expression: QueryExpression) -> ODataError {
        ODataError(.type, message, at: expression.position)
    }

    private func column(
        _ name: String,
        at position: Int
    ) throws(ODataError)
        -> (name: String, type: ExpressionType)
    {
        guard let schema else { return (name, .any) }
        guard let column = schema.column(matching: name) else {
            throw ODataError(
                .unknownColumn,
                "table '\(schema.name)' has no column '\(name)'",
                at: position
            )
        }
        return (column.name, ExpressionType(column.type))
    }

    private func condition(_ expression: QueryExpression) throws(ODataError) -> QueryExpression {
        let (checked, type) = try check(expression)
        guard mayBeCondition(checked, type) else {
            throw mismatch("a condition is expected, but this is \(type.name)", expression)
        }
        return checked
    }

    /// Returns whether the expression can serve as a condition.
    ///
    /// Without a schema, a column may be a Boolean, but the result of arithmetic cannot.
    private func mayBeCondition(_ expression: QueryExpression, _ type: ExpressionType) -> Bool {
        guard type == .any else { return type == .boolean || type == .null }
        return switch expression.kind {
        case .field, .member, .element: true
        case .value, .compare, .all, .any, .not, .arithmetic, .negate, .call, .isIn, .position,
            .orElse, .elementCount, .anyElement, .search, .related, .localizedCompare:
            false
        }
    }

    /// Checks part of an expression and returns it with its type.
    ///
    /// The method is recursive, so it uses as little stack as possible.
    func check(_ expression: QueryExpression) throws(ODataError) -> Checked {
        switch expression.kind {
        case .field(let name): try field(name, expression)
        case .value(let value): (expression, ExpressionType(of: value))
        case .compare(let comparison, let left, let right):
            (try compare(comparison, left, right, expression), .boolean)
        case .all(let parts): (expression.with(.all(try conditions(parts))), .boolean)
        case .any(let parts): (expression.with(.any(try conditions(parts))), .boolean)
        case .not(let operand): try complement(operand, expression)
        case .arithmetic(let operation, let left, let right):
            try arithmetic(operation, left, right, expression)
        case .negate(let operand): try negative(operand, expression)
        case .call(let function, let arguments): try call(function, arguments, expression)
        case .isIn(let operand, let elements): (try isIn(operand, elements, expression), .boolean)
        case .position(let operand, let members): try position(operand, members, expression)
        case .orElse(let operand, let value): try orElse(operand, value, expression)
        case .member, .elementCount, .anyElement, .element, .search, .related,
            .localizedCompare:
            try checkRare(expression)
        }
    }

    /// Checks a rare kind of expression, in a separate function that keeps the other stack frames
    /// small.
    private func checkRare(_ expression: QueryExpression) throws(ODataError) -> Checked {
        switch expression.kind {
        case .member(let document, let names): try member(document, names, expression)
        case .elementCount(let list): try elementCount(list, expression)
        case .anyElement(let list, let number, let condition):
            try anyElement(list, number, condition, expression)
        case .element: (expression, .any)
        case .search(let search): try self.search(search, expression)
        case .related(let rows): (try related(rows, expression), .boolean)
        case .localizedCompare(let comparison, let left, let right, let order):
            (try localizedCompare(comparison, left, right, order, expression), .boolean)
        case .field, .value, .compare, .all, .any, .not, .arithmetic, .negate, .call, .isIn,
            .position, .orElse:
            try check(expression)
        }
    }

    /// Checks the column of this table; the store checks the condition on the other table.
    private func related(
        _ rows: RelatedRows,
        _ whole: QueryExpression
    ) throws(ODataError) -> QueryExpression {
        guard schema == nil || isOnDevice else {
            throw ODataError(
                .unsupported,
                "a condition on related rows is only for the tables of a device",
                at: whole.position
            )
        }
        let (name, type) = try column(rows.column, at: whole.position)
        guard type == .string || type == .guid || type == .any else {
            throw mismatch("column '\(name)' is \(type.name), but an id is a string", whole)
        }
        var checked = rows
        checked.column = name
        return whole.with(.related(checked))
    }

    private func field(_ name: String, _ whole: QueryExpression) throws(ODataError) -> Checked {
        let column = try column(name, at: whole.position)
        if isOnDevice, column.name == SystemColumn.deleted {
            return (whole.with(.value(.bool(false))), .boolean)
        }
        return (whole.with(.field(column.name)), column.type)
    }

    private func negative(
        _ operand: QueryExpression,
        _ whole: QueryExpression
    ) throws(ODataError) -> Checked {
        let (checked, type) = try number(operand)
        return (whole.with(.negate(checked)), type)
    }

    private func position(
        _ operand: QueryExpression,
        _ members: [String],
        _ whole: QueryExpression
    ) throws(ODataError) -> Checked {
        (whole.with(.position(try check(operand).expression, members)), .integer)
    }

    private func orElse(
        _ operand: QueryExpression,
        _ value: Value,
        _ whole: QueryExpression
    ) throws(ODataError) -> Checked {
        let (checked, type) = try check(operand)
        let other = LiteralCoercion.value(value, as: type) ?? value
        return (whole.with(.orElse(checked, other)), type)
    }

    private func complement(
        _ operand: QueryExpression,
        _ whole: QueryExpression
    ) throws(ODataError) -> Checked {
        let (checked, type) = try check(operand)
        guard mayBeCondition(checked, type) else {
            throw mismatch(
                "'not' takes a condition, but this is \(type.name); "
                    + "'not' binds tighter than a comparison, write not (a eq b)",
                whole
            )
        }
        return (whole.with(.not(checked)), .boolean)
    }

    private func conditions(_ parts: [QueryExpression]) throws(ODataError) -> [QueryExpression] {
        var result: [QueryExpression] = []
        for part in parts { result.append(try condition(part)) }
        return result
    }

    /// Checks a search; a search without words matches every row.
    private func search(
        _ search: QueryExpression.Search,
        _ whole: QueryExpression
    ) throws(ODataError) -> Checked {
        guard isOnDevice, let schema else {
            throw ODataError(.unsupported, "only a device can search for words", at: whole.position)
        }
        guard schema.search != nil else {
            throw ODataError(
                .unsupported,
                "table '\(schema.name)' has no search index. Declare 'static let search' in its model",
                at: whole.position
            )
        }
        switch search {
        case .rank: return (whole, .number)
        case .matches(let text):
            let words: SearchText
            do {
                words = try SearchText(text)
            } catch {
                throw ODataError(.unsupported, error.message, at: whole.position)
            }
            return (words.terms.isEmpty ? whole.with(.value(.bool(true))) : whole, .boolean)
        }
    }

    func number(_ expression: QueryExpression) throws(ODataError) -> Checked {
        let (checked, type) = try check(expression)
        guard type.isNumeric || type == .null || type == .any else {
            throw mismatch("a number is expected, but this is \(type.name)", expression)
        }
        return (checked, type)
    }

    private func arithmetic(
        _ operation: Arithmetic,
        _ left: QueryExpression,
        _ right: QueryExpression,
        _ whole: QueryExpression
    ) throws(ODataError) -> Checked {
        var (one, two) = (try number(left), try number(right))
        // In `price add 1.99`, the literal becomes a decimal with exactly the digits in the query.
        if one.type == .decimal {
            two = exact(two)
        } else if two.type == .decimal {
            one = exact(one)
        }
        let result = whole.with(.arithmetic(operation, one.expression, two.expression))
        return (result, type(of: result))
    }

    private func exact(_ operand: Checked) -> Checked {
        guard case .value(let value) = operand.expression.kind, operand.type == .number,
            let decimal = LiteralCoercion.value(value, as: .decimal)
        else { return operand }
        return (operand.expression.with(.value(decimal)), ExpressionType(of: decimal))
    }

    // MARK: - Documents

    private func member(
        _ document: QueryExpression,
        _ names: [String],
        _ whole: QueryExpression
    ) throws(ODataError) -> Checked {
        (whole.with(.member(try self.document(document), names)), .any)
    }

    private func elementCount(
        _ list: QueryExpression,
        _ whole: QueryExpression
    ) throws(ODataError) -> Checked {
        (whole.with(.elementCount(try document(list))), .integer)
    }

    private func anyElement(
        _ list: QueryExpression,
        _ number: Int,
        _ condition: QueryExpression,
        _ whole: QueryExpression
    ) throws(ODataError) -> Checked {
        let list = try document(list)
        return (whole.with(.anyElement(list, number, try self.condition(condition))), .boolean)
    }

    /// Checks the expression before a slash.
    private func document(_ expression: QueryExpression) throws(ODataError) -> QueryExpression {
        let (checked, type) = try check(expression)
        guard type == .json || type == .any else {
            throw mismatch(
                "only a JSON document has members and elements, but this is \(type.name)",
                expression
            )
        }
        return checked
    }
}

extension QueryExpression {
    /// Returns an expression of a different kind with the same position in the query.
    func with(_ kind: Kind) -> QueryExpression { QueryExpression(kind, at: position) }
}
