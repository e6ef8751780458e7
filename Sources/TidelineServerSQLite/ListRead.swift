// ListRead: one page of a table: the statement, and its rows as JSON.

import Foundation
import Synchronization
import TidelineCore
import TidelineSQLite
import TidelineServerCore

struct ListRead {
    let table: SQLiteTable
    let request: ListRequest
    private let renderer: FilterRenderer
    private let keyset: KeysetRenderer
    private let keyTypes: [ExpressionType]

    init(_ request: ListRequest, _ table: SQLiteTable) {
        self.table = table
        self.request = request
        let schema = table.table.definition.schema
        renderer = FilterRenderer(schema: schema, dateUnit: .microseconds)
        keyset = KeysetRenderer(renderer, order: request.order)
        keyTypes = keyset.keys.map { $0.expression.type(in: schema) }
    }

    func run(_ database: Database) throws -> ListPage {
        // Before the state of the table is taken: what is written to it later is set apart.
        if request.countsTies {
            table.isHeadCounted.store(true, ordering: .sequentiallyConsistent)
        }
        guard request.wantsCount || request.offsetBelow != nil && request.offset > 0 else {
            return try page(database)
        }
        // Counts and rows of one state of the table.
        try database.prepare("BEGIN").run()
        defer { try? database.prepare("COMMIT").run() }
        var page = try page(database)
        guard request.wantsCount else { return page }
        let sql = "SELECT count(*) FROM \(Identifier(table.name))" + condition(pages: false)
        page.count = try database.integer(sql.text(for: .sqlite), sql.bindings)
        return page
    }

    // MARK: - The statement

    private func condition(pages: Bool) -> SQL {
        var parts: [SQL] = []
        if !request.includesDeleted { parts.append("\"deleted\" = 0") }
        if let view = request.view { parts.append("(\(renderer.condition(view)))") }
        if let filter = request.filter {
            parts.append("(\(renderer.condition(VersionLiterals.replace(in: filter))))")
        }
        if pages, let values = afterValues {
            parts.append("(\(keyset.condition(after: values)))")
        }
        return parts.isEmpty ? "" : " WHERE " + parts.joined(separator: " AND ")
    }

    private var cells: [Int] {
        guard let select = request.select else { return Array(table.cells.indices) }
        return select.compactMap { table.places.firstIndex(of: $0) }
    }

    /// The cells, and behind them those keys of the row that are no cells; and where each key is.
    private func columns(_ cells: [Int]) -> (sql: SQL, keys: [Int32]) {
        let names =
            request.select == nil
            ? table.cellNames : cells.map { table.cells[$0].quoted }.joined(separator: ", ")
        var sql = SQL(verbatim: names)
        var count = cells.count
        let keys = keyset.keys.map { key in
            if case .field(let name) = key.expression.kind,
                let place = cells.firstIndex(where: { table.cells[$0].name == name })
            {
                return Int32(place)
            }
            if count > 0 { sql.append(", ") }
            sql.append(renderer.value(key.expression))
            count += 1
            return Int32(count - 1)
        }
        return (sql, keys)
    }

    private func statement(_ columns: SQL, offset: Int64) -> SQL {
        var sql: SQL = "SELECT \(columns) FROM \(Identifier(table.name))"
        sql.append(condition(pages: true))
        sql.append(" ORDER BY \(renderer.orderBy(request.order))")
        sql.append(" LIMIT \(SQLValue.integer(Int64(request.rowsMax) + 1))")
        if offset > 0 { sql.append(" OFFSET \(SQLValue.integer(offset))") }
        return sql
    }

    /// The rows to pass over: no more than there are below the bound.
    private func offset(_ database: Database) throws -> Int64 {
        let offset = Int64(request.offset)
        guard offset > 0, let bound = request.offsetBelow else { return offset }
        var sql: SQL = "SELECT count(*) FROM (SELECT 1 FROM \(Identifier(table.name))"
        let condition = condition(pages: false)
        sql.append(condition)
        let isBare = condition.text(for: .sqlite).isEmpty
        sql.append(isBare ? " WHERE " : " AND ")
        sql.append("\"updatedAt\" < \(SQLValue.integer(bound)) LIMIT \(SQLValue.integer(offset)))")
        return try database.integer(sql.text(for: .sqlite), sql.bindings) ?? 0
    }

    // MARK: - The rows

    private func page(_ database: Database) throws -> ListPage {
        var json = RowBytes(capacity: 256 + min(request.rowsMax, 1000) * 256)
        json.append(request.opening)
        guard request.rowsMax > 0 else { return ListPage(bytes: json.bytes, rows: 0) }
        let cells = cells
        let form = request.select == nil ? table.form : RowForm(cells.map { table.cells[$0] })
        let (columns, keyPlaces) = columns(cells)
        let sql = statement(columns, offset: try offset(database))
        let statement = try database.prepare(sql.text(for: .sqlite))
        defer { statement.reset() }
        try statement.bind(sql.bindings)
        var rows = 0
        var next: [SQLValue]?
        while try statement.step() {
            if rows == request.rowsMax {
                return ListPage(bytes: json.bytes, rows: rows, next: next)
            }
            let end = json.count
            if rows > 0 { json.byte(UInt8(ascii: ",")) }
            json.row(form, statement)
            if rows > 0, json.count - request.opening.count > request.bytesMax {
                json.cut(to: end)
                return ListPage(bytes: json.bytes, rows: rows, next: next)
            }
            rows += 1
            // Keys are read only where the page may end.
            if rows == request.rowsMax || json.count > request.bytesMax / 2 {
                next = keyPlaces.map(statement.value)
            }
        }
        return ListPage(bytes: json.bytes, rows: rows)
    }

    /// The keys of the page before as values of their expressions.
    private var afterValues: [Value]? {
        guard let after = request.after, after.count == keyTypes.count else { return nil }
        return zip(after, keyTypes).map(Self.value)
    }

    private static func value(_ stored: SQLValue, _ type: ExpressionType) -> Value {
        switch (stored, type) {
        case (.null, _): .null
        case (.integer(let value), .boolean): .bool(value != 0)
        case (.integer(let value), .dateTime): .date(Timestamp(microseconds: value).date)
        case (.integer(let value), _): .integer(value)
        case (.real(let value), _): .number(value)
        case (.text(let text), .decimal):
            DecimalText.parse(text).map { .decimal($0) } ?? .string(text)
        case (.text(let text), _): .string(text)
        case (.blob(let data), _): .data(data)
        }
    }
}

/// Versions are texts on the wire and integers in the database.
enum VersionLiterals {
    /// The filter with the literals that `version` is compared with as integers.
    static func replace(in expression: QueryExpression) -> QueryExpression {
        var result = expression
        switch expression.kind {
        case .compare(let comparison, let left, let right):
            if isVersion(left) {
                result.kind = .compare(comparison, left, number(right))
            } else if isVersion(right) {
                result.kind = .compare(comparison, number(left), right)
            }
        case .isIn(let operand, let elements) where isVersion(operand):
            result.kind = .isIn(operand, elements.map(number))
        case .all(let parts): result.kind = .all(parts.map(replace))
        case .any(let parts): result.kind = .any(parts.map(replace))
        case .not(let part): result.kind = .not(replace(in: part))
        default: break
        }
        return result
    }

    private static func isVersion(_ expression: QueryExpression) -> Bool {
        expression.kind == .field(SystemColumn.version)
    }

    private static func number(_ expression: QueryExpression) -> QueryExpression {
        guard case .value(.string(let text)) = expression.kind,
            let stamp = RowVersion.stamp(text)
        else { return expression }
        return QueryExpression(.value(.integer(stamp)), at: expression.position)
    }
}
