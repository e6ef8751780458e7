// FilterRendererInstants: compares a server's instants by milliseconds, although the columns store
// microseconds.
//
// A comparison with a literal becomes a range of the stored column, so that an index can be used.
// Everywhere else, an expression truncates the column. StoredInstants.swift states the rule.

import Foundation

extension FilterRenderer {
    /// Returns whether the expression is a column whose instants have more digits than the wire
    /// format.
    func isCutInstant(_ expression: QueryExpression) -> Bool {
        guard dateUnit == .microseconds, case .field = expression.kind else { return false }
        return type(expression) == .dateTime
    }

    /// Returns whether the column is always truncated; `updatedAt` is exact in some expressions.
    package func isCut(_ expression: QueryExpression) -> Bool {
        guard isCutInstant(expression), case .field(let name) = expression.kind else {
            return false
        }
        return name != SystemColumn.updatedAt && name != uncutColumn
    }

    /// Returns whether the expression is the column `updatedAt` of a server.
    func isExactUpdate(_ expression: QueryExpression) -> Bool {
        isCutInstant(expression) && expression.kind == .field(SystemColumn.updatedAt)
    }

    /// Renders the expression; if it is a column of instants, it is not truncated.
    func uncut(_ expression: QueryExpression) -> SQL {
        if isCutInstant(expression), case .field(let name) = expression.kind { return column(name) }
        return plain(expression)
    }

    /// Renders a comparison of a column of instants with a literal; nil for other comparisons.
    func compareCut(
        _ comparison: Comparison,
        _ left: QueryExpression,
        _ right: QueryExpression,
        _ mode: Mode
    ) -> SQL? {
        if isCutInstant(left), case .value(.date(let date)) = right.kind {
            return compareCut(comparison, left, Timestamp(date), mode)
        }
        if isCutInstant(right), case .value(.date(let date)) = left.kind {
            return compareCut(comparison.mirrored, right, Timestamp(date), mode)
        }
        return nil
    }

    private func compareCut(
        _ comparison: Comparison,
        _ field: QueryExpression,
        _ instant: Timestamp,
        _ mode: Mode
    ) -> SQL {
        let column = uncut(field)
        guard isCut(field) else {
            let literal = literal(instant)
            switch comparison {
            case .eq where mode == .loose: return "\(column) = \(literal)"
            case .eq: return dialect.equal(column, literal)
            case .ne: return dialect.notEqual(column, literal)
            case .lt, .le, .gt, .ge:
                return inMode("\(column)\(comparison.sql)\(literal)", mode)
            }
        }
        let millisecond = instant.cutToMilliseconds
        let isWhole = millisecond == instant
        switch comparison {
        case .eq where isWhole: return inMode(range(column, millisecond, millisecond), mode)
        // On the wire, no instant lies between two milliseconds.
        case .eq: return dialect.constant(false)
        case .ne where isWhole:
            return "NOT (\(dialect.orFalse(range(column, millisecond, millisecond))))"
        case .ne: return dialect.constant(true)
        case .lt where isWhole: return inMode("\(column) < \(literal(millisecond))", mode)
        case .ge where isWhole: return inMode("\(column) >= \(literal(millisecond))", mode)
        case .lt, .le:
            guard let next = instant.nextMillisecond else { return "\(column) IS NOT NULL" }
            return inMode("\(column) < \(literal(next))", mode)
        case .gt, .ge:
            guard let next = instant.nextMillisecond else { return dialect.constant(false) }
            return inMode("\(column) >= \(literal(next))", mode)
        }
    }

    /// Renders the condition that a column of instants has one of these values.
    ///
    /// The condition consists of a range, which can use an index, and the list of milliseconds.
    func isCutIn(_ field: QueryExpression, _ values: [Value], _ mode: Mode) -> SQL {
        let instants = values.compactMap { value -> Timestamp? in
            guard case .date(let date) = value else { return nil }
            let instant = Timestamp(date)
            return instant == instant.cutToMilliseconds ? instant : nil
        }
        guard let first = instants.min(), let last = instants.max() else {
            return dialect.constant(false)
        }
        let range = range(uncut(field), first, last)
        if first == last { return inMode(range, mode) }
        let list = instants.map(literal).joined(separator: ", ")
        return inMode("(\(range) AND \(plain(field)) IN (\(list)))", mode)
    }

    /// Returns the condition that a stored instant lies between the first millisecond and the last,
    /// inclusive.
    private func range(_ column: SQL, _ first: Timestamp, _ last: Timestamp) -> SQL {
        let begin: SQL = "\(column) >= \(literal(first))"
        guard let end = last.nextMillisecond else { return begin }
        return "(\(begin) AND \(column) < \(literal(end)))"
    }

    private func inMode(_ condition: SQL, _ mode: Mode) -> SQL {
        mode == .strict ? dialect.orFalse(condition) : condition
    }

    private func literal(_ instant: Timestamp) -> SQL { literal(.date(instant.date)) }
}
