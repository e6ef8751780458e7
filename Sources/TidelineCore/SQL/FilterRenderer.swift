// FilterRenderer: renders expressions as SQL.
//
// A condition is rendered in one of two modes. A `loose` condition may be null if the filter is
// false. That is enough for WHERE, and lets the database use an index. A `strict` condition is
// either true or false, as `not` and comparisons of conditions require.
//
// Columns store instants as integers since 1970 in a unit, booleans and numbers as numbers,
// decimals as canonical text, binary data as bytes, and everything else as text. PostgreSQL has
// dedicated types for them; SQLDialect decides how they are written in a statement.

import Foundation

/// A renderer of a checked expression as SQL with bound values.
package struct FilterRenderer {
    /// The unit in which a database stores instants.
    package enum DateUnit: Hashable, Sendable, CaseIterable {
        /// The unit of the client.
        case milliseconds
        /// The unit of the server.
        ///
        /// Devices store milliseconds, so instants are truncated to milliseconds when they are
        /// compared and ordered: see StoredInstants.
        case microseconds

        var microseconds: Int64 { self == .milliseconds ? 1000 : 1 }
    }

    enum Mode { case loose, strict }

    package let schema: TableSchema
    package let dialect: SQLDialect
    package let dateUnit: DateUnit
    /// The table name that qualifies column names in joins; nil for none.
    package let table: Identifier?
    /// The columns of a joined table that are read in place of this table's columns, because they
    /// have the same values.
    package var copies: [String: Identifier] = [:]
    /// A column of instants that is not truncated; see InstantWindow.
    private(set) var uncutColumn: String?

    package init(
        schema: TableSchema,
        dateUnit: DateUnit,
        dialect: SQLDialect = .sqlite,
        table: Identifier? = nil
    ) {
        self.schema = schema
        self.dialect = dialect
        self.dateUnit = dateUnit
        self.table = table
    }

    /// Returns this renderer for rows whose instants in a column have no microseconds.
    func withUncut(_ column: String) -> FilterRenderer {
        var renderer = self
        renderer.uncutColumn = column
        return renderer
    }

    /// Renders a condition for WHERE, where null excludes the row, as false does.
    package func condition(_ expression: QueryExpression) -> SQL {
        bounded(expression, .loose)
    }

    /// Renders a condition as true or false, never null.
    package func strictCondition(_ expression: QueryExpression) -> SQL {
        bounded(expression, .strict)
    }

    /// Renders the keys of ORDER BY.
    ///
    /// Ties are ordered by id, ascending.
    package func orderBy(_ keys: [SortKey]) -> SQL {
        var parts = keys.map {
            orderKey($0.expression) + collation(of: $0)
                + dialect.direction(isAscending: $0.isAscending)
        }
        if !keys.contains(where: { $0.isID }) { parts.append(column(SystemColumn.id)) }
        return parts.joined(separator: ", ")
    }

    private func collation(of key: SortKey) -> SQL {
        key.localized.map { collation($0) } ?? ""
    }

    func orderKey(_ expression: QueryExpression) -> SQL {
        let value = value(expression)
        if expression.isCondition { return dialect.conditionKey(value) }
        if case .value = expression.kind { return dialect.constantKey(value) }
        return type(expression) == .decimal ? dialect.decimalKey(value) : value
    }

    /// Returns a value in the form in which a column stores it.
    package func stored(_ value: Value) -> SQLValue {
        switch value {
        case .null: .null
        case .bool(let value): .integer(value ? 1 : 0)
        case .integer(let value): .integer(value)
        case .number(let value): .real(value)
        case .decimal(let value): .text(DecimalText.canonical(value))
        case .string(let value): .text(value)
        case .date(let value):
            .integer(
                dateUnit == .milliseconds
                    ? Timestamp(value).milliseconds : Timestamp(value).microseconds
            )
        case .data(let value): .blob(value)
        case .json(let value): .text(value.text)
        }
    }

    /// Returns the value as a SQL literal or parameter.
    func literal(_ value: Value) -> SQL { dialect.literal(value, stored: stored(value)) }

    // MARK: - Conditions

    func type(_ expression: QueryExpression) -> ExpressionType { expression.type(in: schema) }

    func column(_ name: String) -> SQL {
        if let copy = copies[name] { return "\(copy)" }
        if let table { return "\(table).\(Identifier(name))" }
        return "\(Identifier(name))"
    }

    func condition(_ expression: QueryExpression, _ mode: Mode) -> SQL {
        switch expression.kind {
        case .all: return tree(expression.chain, " AND ", mode)
        case .any: return tree(expression.chain, " OR ", mode)
        case .not(let operand): return "NOT (\(condition(operand, .strict)))"
        // Databases do not read documents exactly as the evaluator does.
        case _ where expression.readsDocuments: return document(expression)
        case .compare(let comparison, let left, let right):
            return compare(comparison, left, right, mode)
        case .isIn(let operand, let elements): return isIn(operand, elements, mode)
        case .value(.bool(let value)): return dialect.constant(value)
        case .value: return dialect.constant(false)
        case .field: return dialect.isTrue(plain(expression))
        case .call(.startswith, let arguments):
            return prefix(arguments, mode) ?? plain(expression)
        case .call(let function, _) where function.isCondition: return plain(expression)
        case .call, .arithmetic, .negate, .position, .orElse, .member, .elementCount, .anyElement,
            .element:
            return dialect.isTrue(plain(expression))
        case .search: return plain(expression)
        case .related(let rows): return related(rows, mode)
        case .localizedCompare(let comparison, let left, let right, let order):
            return localizedCompare(comparison, left, right, order, mode)
        }
    }

    private func tree(_ parts: [QueryExpression], _ joint: SQL, _ mode: Mode) -> SQL {
        let parts = parts.map { part in
            let sql = condition(part, mode)
            return part.isCompound ? "(\(sql))" as SQL : sql
        }
        return Self.tree(parts[...], joint)
    }

    /// Renders `"a" >= 'Wine' AND "a" < 'Winf'`, which can use an index; nil for other arguments.
    private func prefix(_ arguments: [QueryExpression], _ mode: Mode) -> SQL? {
        guard case .field = arguments[0].kind, case .value(.string(let prefix)) = arguments[1].kind,
            let successor = Self.successor(of: prefix)
        else { return nil }
        let column = plain(arguments[0])
        let range: SQL = "(\(column) >= \(.text(prefix)) AND \(column) < \(.text(successor)))"
        return mode == .strict ? dialect.orFalse(range) : range
    }

    /// Returns the smallest string that is greater than all strings with this prefix; nil if there
    /// is none.
    package static func successor(of prefix: String) -> String? {
        var scalars = Array(prefix.unicodeScalars)
        while let last = scalars.popLast() {
            let next = last.value == 0xD7FF ? 0xE000 : last.value + 1
            guard let scalar = Unicode.Scalar(next) else { continue }
            scalars.append(scalar)
            return String(String.UnicodeScalarView(scalars))
        }
        return nil
    }

    // MARK: - Values

    /// Renders a value that may be null; conditions are rendered as true or false.
    ///
    /// As a sort key, `updatedAt` is not truncated.
    package func value(_ expression: QueryExpression) -> SQL {
        if isExactUpdate(expression) { return column(SystemColumn.updatedAt) }
        let needsProgram = steps(expression) > Self.stepsMax || expression.readsDocuments
        return dialect.nestsShallow && needsProgram
            ? program(expression, isCondition: false) : plain(expression)
    }

    /// Renders a value that is part of another expression.
    func plain(_ expression: QueryExpression) -> SQL {
        switch expression.kind {
        case .field(let name):
            if isCutInstant(expression), name != uncutColumn {
                return dialect.cutInstant(column(name))
            }
            let isNullable = schema.column(named: name)?.isNullable ?? true
            return dialect.column(column(name), type(expression), isNullable: isNullable)
        case .value(.null): return "NULL"
        case .value(let value): return literal(value)
        case .arithmetic(let operation, let left, let right):
            return dialect.call(operation.rawValue, [plain(left), plain(right)])
        case .negate(let operand): return dialect.call("negate", [plain(operand)])
        case .call(.cast, let arguments), .call(.isof, let arguments):
            return typed(expression, arguments)
        case .call(let function, let arguments):
            let operands = arguments.map { function.takesDates ? instant($0) : plain($0) }
            return dialect.call(function.rawValue.lowercased(), operands)
        case .position(let operand, let members): return position(plain(operand), members)
        case .orElse(let operand, let value):
            return dialect.value(plain(operand), or: literal(value))
        case .compare, .all, .any, .not, .isIn, .anyElement, .localizedCompare:
            return "(\(condition(expression, .strict)))"
        case .member, .elementCount, .element: return program(expression, isCondition: false)
        case .search(let search): return self.search(search)
        case .related(let rows): return "(\(related(rows, .strict)))"
        }
    }

    /// Renders a call such as `tl_cast("a", 'decimal', 'Edm.Int32')`, with the value's stored type
    /// and the target type.
    private func typed(_ expression: QueryExpression, _ arguments: [QueryExpression]) -> SQL {
        guard case .call(let function, _) = expression.kind, let target = arguments.edmType else {
            return "NULL"
        }
        let source = SQLFunctions.source(type(arguments[0]))
        return dialect.call(
            function.rawValue,
            [instant(arguments[0]), "\(source)", "\(.text(target.rawValue))"]
        )
    }

    /// Renders an argument of a date function: an instant in microseconds, or a string.
    func instant(_ expression: QueryExpression) -> SQL {
        switch expression.kind {
        case .value(.date(let date)): return "\(.integer(Timestamp(date).microseconds))"
        case .field, .orElse:
            let isScaled = type(expression) == .dateTime && dateUnit == .milliseconds
            return isScaled ? "\(plain(expression)) * 1000" : plain(expression)
        case .value, .compare, .all, .any, .not, .arithmetic, .negate, .call, .isIn, .position,
            .member, .elementCount, .anyElement, .element, .search, .related, .localizedCompare:
            return plain(expression)
        }
    }

    /// Returns whether the expression is an instant that a function computed, which is always in
    /// microseconds.
    func isComputedInstant(_ expression: QueryExpression) -> Bool {
        switch expression.kind {
        case .field, .value, .orElse: false
        case .compare, .all, .any, .not, .arithmetic, .negate, .call, .isIn, .position, .member,
            .elementCount, .anyElement, .element:
            type(expression) == .dateTime
        case .search, .related, .localizedCompare: false
        }
    }

    /// Renders a search as a condition that is never null, or the rank of a row in a ranked search.
    func search(_ search: QueryExpression.Search) -> SQL {
        switch search {
        case .rank: return "\(Identifier.searchRank)"
        case .matches(let text):
            // FilterChecker has rejected text that cannot be parsed.
            guard let words = try? SearchText(text) else { return dialect.constant(false) }
            let index = schema.searchIndex
            let key = column(Identifier.rowKey.name)
            func found(_ expression: String) -> SQL {
                "(SELECT \"rowid\" FROM \(index) WHERE \(index) MATCH \(.text(expression)))"
            }
            if let required = words.required { return "(\(key) IN \(found(required)))" }
            if let excluded = words.excluded { return "(\(key) NOT IN \(found(excluded)))" }
            return dialect.constant(true)
        }
    }

    private func position(_ value: SQL, _ members: [String]) -> SQL {
        var sql: SQL = "CASE WHEN \(value) IS NULL THEN NULL"
        for (index, member) in members.enumerated() {
            sql.append(" WHEN \(value) = \(.text(member)) THEN \(index)")
        }
        sql.append(" ELSE \(members.count) END")
        return sql
    }
}

extension QueryExpression {
    /// The parts of a chain of `and` or `or`, including the parts of nested chains of the same
    /// kind.
    ///
    /// LINQ clients nest a chain as deeply as the chain is long.
    var chain: [QueryExpression] {
        switch kind {
        case .all(let parts):
            parts.flatMap { part in if case .all = part.kind { part.chain } else { [part] } }
        case .any(let parts):
            parts.flatMap { part in if case .any = part.kind { part.chain } else { [part] } }
        case .field, .value, .compare, .not, .arithmetic, .negate, .call, .isIn, .position,
            .orElse, .member, .elementCount, .anyElement, .element, .search, .related,
            .localizedCompare:
            [self]
        }
    }

    /// Whether the expression needs parentheses inside another expression.
    var isCompound: Bool {
        switch kind {
        case .all, .any, .isIn: true
        case .field, .value, .compare, .not, .arithmetic, .negate, .call, .position, .orElse,
            .member, .elementCount, .anyElement, .element, .search, .related, .localizedCompare:
            false
        }
    }
}

extension SortKey {
    /// Whether the key is the id, after which no ties are possible.
    package var isID: Bool { expression.kind == .field(SystemColumn.id) }
}

extension Function {
    /// Whether the argument may be an instant.
    var takesDates: Bool {
        switch self {
        case .year, .month, .day, .hour, .minute, .second, .fractionalseconds, .date, .time,
            .totaloffsetminutes:
            true
        case .contains, .localizedContains, .localizedCaseInsensitiveContains, .startswith,
            .endswith, .matchesPattern, .length,
            .indexof, .substring, .replace, .tolower, .toupper, .trim, .concat, .floor, .ceiling,
            .round, .roundAway, .now, .cast, .isof, .has:
            false
        }
    }
}
