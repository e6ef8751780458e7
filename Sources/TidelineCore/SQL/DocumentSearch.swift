// DocumentSearch: finds the strings that a JSON document must contain to satisfy a condition.
//
// A condition that requires a certain member or text is false for a document that does not contain
// its bytes, unless the document has an escape. A database finds the bytes faster than the
// evaluator reads the document. Pure.

/// A substring that every document matching a condition must contain.
struct DocumentSearch {
    let column: String
    let text: String

    fileprivate init(_ column: String, _ text: String) { (self.column, self.text) = (column, text) }

    /// Returns the strings that a condition requires, the most selective ones first.
    static func searches(for condition: QueryExpression) -> [DocumentSearch] {
        condition.requiredTexts([:])
    }

    /// A string, or the name of a member.
    fileprivate static func whole(_ column: String, _ text: String) -> DocumentSearch {
        DocumentSearch(column, "\"\(text)\"")
    }
}

extension QueryExpression {
    /// Returns the strings that the condition requires; values come before member names.
    ///
    /// `columns` maps the numbers of the enclosing elements to their columns.
    fileprivate func requiredTexts(_ columns: [Int: String]) -> [DocumentSearch] {
        switch kind {
        case .all(let parts): return parts.flatMap { $0.requiredTexts(columns) }
        case .compare(.eq, let left, let right):
            return left.texts(equalTo: right, columns) + right.texts(equalTo: left, columns)
        case .compare(.lt, let left, let right), .compare(.le, let left, let right),
            .compare(.gt, let left, let right), .compare(.ge, let left, let right):
            return left.names(columns) + right.names(columns)
        case .call(let function, let arguments) where arguments.count == 2:
            return Self.texts(of: function, arguments[0], arguments[1], columns)
        case .anyElement(let list, let number, let condition):
            var inner = columns
            inner[number] = list.column(columns)
            return condition.requiredTexts(inner) + list.names(columns)
        case .member: return names(columns)
        case .field, .value, .any, .not, .compare, .arithmetic, .negate, .call, .isIn, .position,
            .orElse, .elementCount, .element, .search, .related, .localizedCompare:
            return []
        }
    }

    private static func texts(
        of function: Function,
        _ operand: QueryExpression,
        _ part: QueryExpression,
        _ columns: [Int: String]
    ) -> [DocumentSearch] {
        guard case .value(.string(let text)) = part.kind else { return [] }
        let names = operand.names(columns)
        guard operand.isPart, let column = operand.column(columns) else { return names }
        switch function {
        case .contains where !text.isEmpty: return [DocumentSearch(column, text)] + names
        case .startswith: return [DocumentSearch(column, "\"" + text)] + names
        case .endswith: return [DocumentSearch(column, text + "\"")] + names
        case .contains, .localizedContains, .localizedCaseInsensitiveContains, .matchesPattern,
            .length, .indexof, .substring, .replace, .tolower, .toupper, .trim, .concat, .year,
            .month, .day, .hour, .minute, .second, .totaloffsetminutes, .fractionalseconds, .date,
            .time, .floor, .ceiling, .round, .roundAway, .now, .cast, .isof, .has:
            return []
        }
    }

    /// Returns the strings that the document must contain if this expression equals a literal.
    private func texts(
        equalTo literal: QueryExpression,
        _ columns: [Int: String]
    ) -> [DocumentSearch] {
        guard case .value(let value) = literal.kind, !value.isNull else { return [] }
        guard isPart, let text = value.text, let column = column(columns) else {
            return names(columns)
        }
        return [.whole(column, text)] + names(columns)
    }

    /// Whether the expression is a member or an element.
    private var isPart: Bool {
        switch kind {
        case .member, .element: true
        case .field, .value, .compare, .all, .any, .not, .arithmetic, .negate, .call, .isIn,
            .position, .orElse, .elementCount, .anyElement, .search, .related, .localizedCompare:
            false
        }
    }

    /// Returns the column of the document that contains this part; nil if a default may replace the
    /// part.
    private func column(_ columns: [Int: String]) -> String? {
        switch kind {
        case .field(let name): name
        case .element(let number): columns[number]
        case .member(let document, _): document.column(columns)
        case .value, .compare, .all, .any, .not, .arithmetic, .negate, .call, .isIn, .position,
            .orElse, .elementCount, .anyElement, .search, .related, .localizedCompare:
            nil
        }
    }

    /// Returns the member names without which the value is null.
    private func names(_ columns: [Int: String]) -> [DocumentSearch] {
        switch kind {
        case .member(let document, let names):
            guard let column = document.column(columns) else { return [] }
            return names.reversed().map { .whole(column, $0) }
        case .call(.cast, let arguments): return arguments[0].names(columns)
        case .arithmetic(_, let left, let right): return left.names(columns) + right.names(columns)
        case .negate(let operand): return operand.names(columns)
        case .field, .value, .compare, .all, .any, .not, .call, .isIn, .position, .orElse,
            .elementCount, .anyElement, .element, .search, .related, .localizedCompare:
            return []
        }
    }
}
