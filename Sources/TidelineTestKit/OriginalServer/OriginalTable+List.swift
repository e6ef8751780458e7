// OriginalTable+List: queries of a table, with paging and next links.

import Foundation
import Tideline
import TidelineCore

extension OriginalTable {
    private static let pageSize = 50
    private static let maxTop = 1000

    func list(_ request: OriginalRequest) -> TransportResponse {
        let asked = request["$top"].flatMap { Int($0) } ?? 0
        if flavor == .node, asked > Self.maxTop {
            return error(400, "You cannot request more than \(Self.maxTop) records")
        }
        let skip = max(0, request["$skip"].flatMap { Int($0) } ?? 0)
        var take = asked > 0 ? asked : Self.pageSize
        if flavor == .dotNet {
            take = min(take, Self.pageSize)
            if asked == 0, request["$top"] != nil { take = 0 }
        }
        var fitting = rows.filter { !$0.isDeleted || includesDeleted(request) }
        var order: [SortKey] = []
        var select: [String]?
        do {
            if let text = request["$filter"] {
                let filter = try ODataParser.filter(text, dialect: .v3)
                if let rejection = check(filter) { return rejection }
                fitting = fitting.filter { matches(filter, $0) }
            }
            if let text = request["$orderby"] {
                order = try ODataParser.orderBy(text, dialect: .v3)
                for key in order {
                    if let rejection = check(key.expression) { return rejection }
                }
            }
            select = request["$select"]?.split(separator: ",").map {
                $0.trimmingCharacters(in: .whitespaces)
            }
            if let select, !select.allSatisfy(isColumn) { return unknownColumn(select) }
        } catch {
            return self.error(flavor == .node ? 500 : 400, "Expression expected")
        }
        let page = sorted(fitting, order).dropFirst(skip).prefix(take)
        let rows = page.map { selected(written($0), select) }
        let list = OriginalJSON.text(rows)
        let counts = request["$inlinecount"] == "allpages"
        var response = TransportResponse.json(
            200,
            counts ? #"{"results":\#(list),"count":\#(fitting.count)}"# : list
        )
        response.headers["Link"] = link(
            request,
            take: take,
            skip: skip + rows.count,
            isCut: flavor == .node
                ? rows.count == take : skip + rows.count < fitting.count && asked != rows.count
        )
        return response
    }

    /// Returns whether a request asks for deleted rows.
    ///
    /// Node accepts any value, but the parameter's name is case-sensitive. .NET accepts only
    /// `true`, but ignores the case of the name.
    private func includesDeleted(_ request: OriginalRequest) -> Bool {
        switch flavor {
        case .node: request["__includeDeleted"]?.isEmpty == false
        case .dotNet:
            request.parameters.contains {
                $0.name.lowercased() == "__includedeleted" && $0.value == "true"
            }
        }
    }

    /// Sorts rows; without an order, and for equal keys, SQLite returns rows in insertion order.
    private func sorted(_ rows: [Stored], _ order: [SortKey]) -> [Stored] {
        guard !order.isEmpty else { return rows }
        let keyed = rows.enumerated().map { index, stored in
            (
                index: index, stored: stored,
                keys: order.map { evaluator(stored).evaluate($0.expression) }
            )
        }
        return keyed.sorted { one, two in
            for (index, key) in order.enumerated() {
                let result = ValueOrder.sort(one.keys[index], two.keys[index])
                if result != 0 { return key.isAscending == (result < 0) }
            }
            return one.index < two.index
        }.map(\.stored)
    }

    private func selected(_ row: Row, _ select: [String]?) -> Row {
        guard let select else { return row }
        var result = Row()
        for name in select { result[name] = row[name] }
        return result
    }

    /// Returns the next link; Node's link is unusable, because it has no port and its path is `/`.
    private func link(
        _ request: OriginalRequest,
        take: Int,
        skip: Int,
        isCut: Bool
    ) -> String? {
        guard isCut, take > 0 else { return nil }
        var parameters = request.parameters
        func set(_ name: String, _ value: Int) {
            if let place = parameters.firstIndex(where: { $0.name == name }) {
                parameters[place].value = String(value)
            } else {
                parameters.append((name, String(value)))
            }
        }
        if flavor == .node { set("$top", take) }
        set("$skip", skip)
        if flavor == .dotNet, let top = request["$top"].flatMap({ Int($0) }) {
            set("$top", top - take)
        }
        let query = parameters.map {
            Self.encoded($0.name) + "=" + Self.encoded($0.value)
        }.joined(separator: "&")
        let place = flavor == .node ? request.origin + "/" : request.address
        return "\(place)?\(query); rel=next"
    }

    /// Encodes a string like JavaScript's `encodeURIComponent`.
    private static func encoded(_ text: String) -> String {
        text.addingPercentEncoding(withAllowedCharacters: unreserved) ?? text
    }

    private static let unreserved = CharacterSet(
        charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.!~*'()"
    )

    // MARK: - Filters

    private func isColumn(_ name: String) -> Bool {
        columns[name] != nil || ["id", "createdAt", "updatedAt", "version"].contains(name)
            || definition.softDelete && name == "deleted"
    }

    /// Returns the response to a query with an unknown column; if the table creates columns on
    /// demand, there are no rows.
    private func unknownColumn(_ names: [String]) -> TransportResponse {
        let name = names.first { !isColumn($0) } ?? ""
        if flavor == .dotNet { return error(400, "Could not find a property named '\(name)'.") }
        return definition.dynamicSchema
            ? .json(200, "[]") : error(500, "SQLITE_ERROR: no such column: \(name)")
    }

    /// Returns the response to a filter that is rejected or that can never match.
    private func check(_ expression: QueryExpression) -> TransportResponse? {
        // Neither original server supports paths or conditions on elements.
        if expression.readsDocuments {
            return error(flavor == .node ? 500 : 400, "Expression expected")
        }
        var columns: [String] = []
        var functions: [Function] = []
        expression.visit { node in
            if case .field(let name) = node.kind { columns.append(name) }
            if case .call(let function, _) = node.kind { functions.append(function) }
        }
        if hasSQLiteFunctions {
            let unknown: [Function: String] = [
                .length: "LEN", .year: "YEAR", .month: "MONTH", .day: "DAY", .hour: "DATEPART",
                .minute: "DATEPART", .second: "DATEPART",
            ]
            for function in functions {
                guard let name = unknown[function] else { continue }
                return error(500, "SQLITE_ERROR: no such function: \(name)")
            }
        }
        return columns.allSatisfy(isColumn) ? nil : unknownColumn(columns)
    }

    func matches(_ expression: QueryExpression, _ stored: Stored) -> Bool {
        evaluator(stored).matches(hasSQLiteFunctions ? expression.asOnSQLite : expression)
    }

    private func evaluator(_ stored: Stored) -> FilterEvaluator {
        FilterEvaluator { name in
            switch name {
            case "updatedAt": return .date(stored.updatedAt.date)
            case "createdAt": return .date(stored.createdAt.date)
            case "version": return .string(stored.version)
            case "deleted": return .bool(stored.isDeleted)
            default: break
            }
            guard let value = stored.row[name] else { return .null }
            // A date in a text column is compared as a date.
            if case .string(let text) = value, text.hasSuffix("Z"), let timestamp = Timestamp(text)
            {
                return .date(timestamp.date)
            }
            return value
        }
    }
}

extension QueryExpression {
    /// Calls `body` with the expression and each of its subexpressions.
    fileprivate func visit(_ body: (QueryExpression) -> Void) {
        body(self)
        for part in parts { part.visit(body) }
    }

    private var parts: [QueryExpression] {
        switch kind {
        case .field, .value, .element, .search, .related: []
        case .compare(_, let left, let right), .arithmetic(_, let left, let right),
            .localizedCompare(_, let left, let right, _):
            [left, right]
        case .all(let parts), .any(let parts), .call(_, let parts): parts
        case .not(let operand), .negate(let operand), .position(let operand, _),
            .orElse(let operand, _), .member(let operand, _), .elementCount(let operand):
            [operand]
        case .anyElement(let list, _, let condition): [list, condition]
        case .isIn(let operand, let elements): [operand] + elements
        }
    }

    /// The expression with the results that the Node server's functions have on SQLite.
    ///
    /// On SQLite, `'%' + x` adds numbers, so that `startswith` matches nothing. The arguments of
    /// `indexof` are swapped.
    fileprivate var asOnSQLite: QueryExpression {
        switch kind {
        case .call(.startswith, _), .call(.endswith, _), .call(.contains, _):
            QueryExpression(.value(.bool(false)))
        case .call(.indexof, let arguments) where arguments.count == 2:
            QueryExpression(.call(.indexof, [arguments[1], arguments[0]]))
        case .compare(let comparison, let left, let right):
            QueryExpression(.compare(comparison, left.asOnSQLite, right.asOnSQLite))
        case .all(let parts): QueryExpression(.all(parts.map(\.asOnSQLite)))
        case .any(let parts): QueryExpression(.any(parts.map(\.asOnSQLite)))
        case .not(let operand): QueryExpression(.not(operand.asOnSQLite))
        case .field, .value, .arithmetic, .negate, .call, .isIn, .position, .orElse, .member,
            .elementCount, .anyElement, .element, .search, .related, .localizedCompare:
            self
        }
    }
}
