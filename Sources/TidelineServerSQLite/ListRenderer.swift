// ListRenderer: the statement of a page, from what a list asks.

import TidelineCore
import TidelineSQLite
import TidelineServerCore

/// A page's statement, and how its rows are read.
struct ListStatement: Sendable {
    let text: String
    private(set) var bindings: [SQLValue]
    let form: RowForm
    /// Where the keys of the order are among the columns.
    let keyPlaces: [Int32]
    /// The condition of who asked, empty without one.
    let view: SQL
    /// Where the values of the view are among the bindings.
    let viewPlace: Int

    /// The same statement for another number of rows to pass over; it passes over some already.
    func passing(over offset: Int) -> ListStatement {
        var statement = self
        statement.bindings[bindings.count - 1] = .integer(Int64(offset))
        return statement
    }

    /// The same statement for somebody else; nil when their view has another form.
    func fitted(to view: SQL) -> ListStatement? {
        let isSameForm = view.text(for: .sqlite).utf8.elementsEqual(
            self.view.text(for: .sqlite).utf8
        )
        guard isSameForm, view.bindings.count == self.view.bindings.count else { return nil }
        var statement = self
        statement.bindings.replaceSubrange(
            viewPlace..<viewPlace + view.bindings.count,
            with: view.bindings
        )
        return statement
    }
}

struct ListRenderer {
    private let table: SQLiteTable
    private let request: ListRequest
    private let renderer: FilterRenderer
    private let keyset: KeysetRenderer

    init(_ request: ListRequest, _ table: SQLiteTable) {
        self.table = table
        self.request = request
        renderer = FilterRenderer(schema: table.table.definition.schema, dateUnit: .microseconds)
        keyset = KeysetRenderer(renderer, order: request.order)
    }

    /// The page.
    var page: ListStatement {
        let cells = cells
        let form = request.select == nil ? table.form : RowForm(cells.map { table.cells[$0] })
        let (columns, keyPlaces) = columns(cells)
        var sql: SQL = "SELECT \(columns) FROM \(Identifier(table.name))"
        sql.append(condition(pages: true))
        sql.append(" ORDER BY \(renderer.orderBy(request.order))")
        sql.append(" LIMIT \(SQLValue.integer(Int64(request.rowsMax) + 1))")
        if request.offset > 0 {
            sql.append(" OFFSET \(SQLValue.integer(Int64(request.offset)))")
        }
        return ListStatement(
            text: sql.text(for: .sqlite),
            bindings: sql.bindings,
            form: form,
            keyPlaces: keyPlaces,
            view: view,
            viewPlace: columns.bindings.count
        )
    }

    /// How many rows the filter has, on all pages.
    var count: SQL {
        "SELECT count(*) FROM \(Identifier(table.name))" + condition(pages: false)
    }

    /// What the caller may see, which stands before every other value of the conditions.
    var view: SQL {
        guard let view = request.view else { return SQL() }
        return "(\(renderer.condition(view)))"
    }

    private func condition(pages: Bool) -> SQL {
        var parts: [SQL] = []
        if !request.includesDeleted { parts.append("\"deleted\" = 0") }
        if !view.isEmpty { parts.append(view) }
        // Before the filter: of two bounds on one column SQLite takes the first to seek by, and with
        // the filter's it would read again all that the pages before had.
        if pages, let values = afterValues {
            parts.append("(\(keyset.condition(after: values)))")
        }
        if let filter = request.filter {
            parts.append("(\(renderer.condition(VersionLiterals.replace(in: filter))))")
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

    /// The keys of the page before as values of their expressions.
    private var afterValues: [Value]? {
        guard let after = request.after, after.count == keyset.keys.count else { return nil }
        let schema = table.table.definition.schema
        return zip(after, keyset.keys).map { Value($0, as: $1.expression.type(in: schema)) }
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
