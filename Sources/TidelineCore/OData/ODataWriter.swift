// ODataWriter: writes expressions as query text.
//
// With a schema, a literal that is compared with a date, time, or guid column is written as a
// literal of that type, which other servers require. The parser reads both spellings as the same
// value.

import Foundation

/// A writer of expressions as query text, which the parser reads back as the same expression.
package struct ODataWriter {
    let dialect: ODataDialect
    let schema: TableSchema?
    /// The name of the outermost variable; the variables of nested conditions have a number
    /// appended.
    private var variable = "x"
    /// The number of conditions on elements that enclose the current expression.
    private var elementsAround = 0

    package init(_ dialect: ODataDialect, schema: TableSchema? = nil) {
        self.dialect = dialect
        self.schema = schema
    }

    /// Returns the text of `$filter`.
    ///
    /// - Throws: An error if an expression is not supported in the dialect.
    package func filter(_ expression: QueryExpression) throws(ODataError) -> String {
        var text = ""
        try naming(expression).write(expression, to: &text)
        return text
    }

    /// Returns the text of `$orderby`.
    package func orderBy(_ keys: [SortKey]) throws(ODataError) -> String {
        var text = ""
        for key in keys {
            if !text.isEmpty { text += "," }
            guard key.localized == nil else {
                throw unsupported("a localized order", key.expression)
            }
            try naming(key.expression).write(key.expression, to: &text)
            if !key.isAscending { text += " desc" }
        }
        return text
    }

    // MARK: - Expressions

    private func write(_ expression: QueryExpression, to text: inout String) throws(ODataError) {
        switch expression.kind {
        case .field(let name): text += name
        case .value(let value): try write(value, .any, expression, to: &text)
        case .compare(let comparison, let left, let right):
            try operand(left, nextTo: right, to: &text)
            text += " \(comparison.rawValue) "
            try operand(right, nextTo: left, to: &text)
        case .all(let parts): try chain(parts, " and ", empty: "true", to: &text)
        case .any(let parts): try chain(parts, " or ", empty: "false", to: &text)
        case .not(let operand):
            text += "not("
            try write(operand, to: &text)
            text += ")"
        case .arithmetic(let operation, let left, let right):
            try operand(left, to: &text)
            text += " \(operation.rawValue) "
            try operand(right, to: &text)
        case .negate(let operand):
            text += "-("
            try write(operand, to: &text)
            text += ")"
        case .call(.has, let arguments):
            try operand(arguments[0], to: &text)
            text += " has "
            try operand(arguments[1], to: &text)
        case .call(let function, let arguments):
            try call(function, arguments, expression, to: &text)
        case .isIn(let operand, let elements): try isIn(operand, elements, to: &text)
        // This kind occurs only in orders and comparisons, where the server itself orders by
        // position.
        case .position(let operand, _): try write(operand, to: &text)
        // A server does not know the default values of a device's records.
        case .orElse(let operand, _): try write(operand, to: &text)
        case .localizedCompare:
            throw unsupported("a comparison in a localized order", expression)
        case .member, .elementCount, .anyElement, .element, .search, .related:
            try path(expression, to: &text)
        }
    }

    /// Writes an operand of a comparison or of arithmetic, in parentheses unless it is one word.
    private func operand(
        _ expression: QueryExpression,
        nextTo other: QueryExpression? = nil,
        to text: inout String
    ) throws(ODataError) {
        switch expression.kind {
        case .call(.has, _):
            text += "("
            try write(expression, to: &text)
            text += ")"
        case .field, .call, .negate, .position, .orElse, .member, .elementCount, .anyElement,
            .element, .search, .related, .localizedCompare:
            try write(expression, to: &text)
        case .value(let value):
            try write(value, other?.type(in: schema) ?? .any, expression, to: &text)
        case .compare, .all, .any, .not, .arithmetic, .isIn:
            text += "("
            try write(expression, to: &text)
            text += ")"
        }
    }

    private func chain(
        _ parts: [QueryExpression],
        _ joint: String,
        empty: String,
        to text: inout String
    ) throws(ODataError) {
        if parts.isEmpty { text += empty }
        for (index, part) in parts.enumerated() {
            if index > 0 { text += joint }
            guard part.isChain(in: dialect) else {
                try write(part, to: &text)
                continue
            }
            text += "("
            try write(part, to: &text)
            text += ")"
        }
    }

    private func isIn(
        _ operand: QueryExpression,
        _ elements: [QueryExpression],
        to text: inout String
    ) throws(ODataError) {
        if elements.isEmpty {
            text += "false"
        } else if dialect == .v3
            && !operand.contains({ if case .isIn = $0 { true } else { false } })
        {
            // Lists of lists are not expanded, because each expansion would repeat everything
            // before it.
            let parts = elements.map { QueryExpression(.compare(.eq, operand, $0)) }
            try chain(parts, " or ", empty: "false", to: &text)
        } else {
            try self.operand(operand, to: &text)
            text += " in ("
            for (index, element) in elements.enumerated() {
                if index > 0 { text += "," }
                if case .value(let value) = element.kind {
                    try write(value, operand.type(in: schema), element, to: &text)
                } else {
                    try write(element, to: &text)
                }
            }
            text += ")"
        }
    }

    private func call(
        _ function: Function,
        _ arguments: [QueryExpression],
        _ whole: QueryExpression,
        to text: inout String
    ) throws(ODataError) {
        text += try name(function, whole) + "("
        let operands = function == .contains && dialect == .v3 ? arguments.reversed() : arguments
        for (index, operand) in operands.enumerated() {
            if index > 0 { text += "," }
            if index == 1, let type = operands.edmType, function == .cast || function == .isof {
                text += type.rawValue
            } else {
                try write(operand, to: &text)
            }
        }
        text += ")"
    }

    private func name(
        _ function: Function,
        _ whole: QueryExpression
    ) throws(ODataError) -> String {
        switch function {
        case .contains: return dialect == .v3 ? "substringof" : function.rawValue
        case .localizedContains: throw unsupported("localizedStandardContains", whole)
        case .localizedCaseInsensitiveContains:
            throw unsupported("localizedCaseInsensitiveContains", whole)
        case .round:
            if dialect == .v3 { throw unsupported("rounding half to even", whole) }
            return function.rawValue
        case .roundAway:
            if dialect == .v4 { throw unsupported("rounding half away from zero", whole) }
            return Function.round.rawValue
        case .startswith, .endswith, .matchesPattern, .length, .indexof, .substring, .replace,
            .tolower, .toupper, .trim, .concat, .year, .month, .day, .hour, .minute, .second,
            .totaloffsetminutes, .fractionalseconds, .date, .time, .floor, .ceiling, .now, .cast,
            .isof, .has:
            return function.rawValue
        }
    }

    // MARK: - Paths

    /// Returns a writer whose variable names do not clash with a column in the expression.
    private func naming(_ expression: QueryExpression) -> ODataWriter {
        var writer = self
        while expression.contains({ kind in
            guard case .field(let name) = kind else { return false }
            return name.hasPrefix(writer.variable)
        }) {
            writer.variable += "x"
        }
        return writer
    }

    private func name(ofElement number: Int) -> String {
        number == 0 ? variable : "\(variable)\(number)"
    }

    private func path(
        _ expression: QueryExpression,
        to text: inout String
    ) throws(ODataError) {
        if case .search = expression.kind {
            throw unsupported("a search for words (matching)", expression)
        }
        if case .related = expression.kind {
            throw unsupported("a condition on related records (hasParent, hasChild)", expression)
        }
        guard dialect == .v4 else {
            throw unsupported("a condition on a member or an element", expression)
        }
        switch expression.kind {
        case .member(let document, let names):
            try write(document, to: &text)
            for name in names {
                guard ODataLexer.isName(name, dialect) else {
                    throw unsupported("a member whose name is not a word", expression)
                }
                text += "/" + name
            }
        case .elementCount(let list):
            try write(list, to: &text)
            text += "/$count"
        case .anyElement(let list, let number, let condition):
            try anyElement(of: list, number, condition, to: &text)
        case .element(let number): text += name(ofElement: number)
        case .field, .value, .compare, .all, .any, .not, .arithmetic, .negate, .call, .isIn,
            .position, .orElse, .search, .related, .localizedCompare:
            try write(expression, to: &text)
        }
    }

    private func anyElement(
        of list: QueryExpression,
        _ number: Int,
        _ condition: QueryExpression,
        to text: inout String
    ) throws(ODataError) {
        guard elementsAround == 0 || list.isOfElement else {
            throw unsupported("a condition on the elements of two columns at once", condition)
        }
        try write(list, to: &text)
        text += "/any("
        if condition.kind != .value(.bool(true)) {
            var inner = self
            inner.elementsAround += 1
            text += name(ofElement: number) + ":"
            try inner.write(condition, to: &text)
        }
        text += ")"
    }

    private func unsupported(_ what: String, _ expression: QueryExpression) -> ODataError {
        ODataError(
            .unsupported,
            "\(what) cannot be expressed in queries of \(dialect == .v3 ? "protocol 2.x" : "OData v4")",
            at: expression.position
        )
    }

    // MARK: - Literals

    private func write(
        _ value: Value,
        _ type: ExpressionType,
        _ expression: QueryExpression,
        to text: inout String
    ) throws(ODataError) {
        switch value {
        case .null: text += "null"
        case .bool(let value): text += value ? "true" : "false"
        case .integer(let value):
            text += String(value)
            if dialect == .v3, Int32(exactly: value) == nil { text += "L" }
        case .number(let value):
            guard value.isFinite else { throw unsupported("an infinite number", expression) }
            text += "\(value)"
        case .decimal(let value): text += DecimalText.canonical(value) + "M"
        case .string(let value): text += Self.typed(value, type, dialect) ?? Self.quoted(value)
        case .date(let date):
            let timestamp = Timestamp(date)
            let instant = timestamp.microseconds % 1000 == 0 ? timestamp.text : timestamp.exactText
            text += dialect == .v4 ? instant : "datetimeoffset'\(instant)'"
        case .data(let data):
            text +=
                dialect == .v4
                ? "binary'\(BinaryText.base64URL(data))'" : "X'\(BinaryText.hex(data))'"
        case .json: throw unsupported("a JSON document", expression)
        }
    }

    /// Returns the unquoted literal for a date, time, or UUID; nil if the string does not have the
    /// type.
    private static func typed(
        _ text: String,
        _ type: ExpressionType,
        _ dialect: ODataDialect
    )
        -> String?
    {
        switch (type, dialect) {
        case (.guid, .v4): GuidText.canonical(text) == text ? text : nil
        case (.guid, .v3): GuidText.canonical(text) == text ? "guid'\(text)'" : nil
        case (.date, .v4): DayText.canonical(text)
        case (.time, .v4): TimeText.canonical(text) == text ? text : nil
        case (.null, _), (.boolean, _), (.integer, _), (.number, _), (.decimal, _), (.string, _),
            (.dateTime, _), (.date, _), (.time, _), (.binary, _), (.json, _), (.enumeration, _),
            (.any, _):
            nil
        }
    }

    private static func quoted(_ text: String) -> String {
        let quote: Unicode.Scalar = "'"
        var scalars = String.UnicodeScalarView()
        scalars.append(quote)
        for scalar in text.unicodeScalars {
            if scalar == quote { scalars.append(quote) }
            scalars.append(scalar)
        }
        scalars.append(quote)
        return String(scalars)
    }
}

extension QueryExpression {
    /// Returns whether the expression is written as a chain of `and` or `or`.
    fileprivate func isChain(in dialect: ODataDialect) -> Bool {
        switch kind {
        case .all, .any: true
        case .isIn(_, let elements): dialect == .v3 && elements.count > 1
        case .field, .value, .compare, .not, .arithmetic, .negate, .call, .position, .orElse,
            .member, .elementCount, .anyElement, .element, .search, .related, .localizedCompare:
            false
        }
    }
}
