// ListRenderer: SQL for lists.

import TidelineCore
import TidelineSQLite
import TidelineServerCore

/// The statement of a page, and the indexes of its columns.
struct ListStatement: Sendable {
    let text: String
    private(set) var bindings: [SQLValue]
    let form: RowForm
    /// The indexes of the sort keys among the columns.
    let keyIndexes: [Int32]
    /// The index of the version, if a key may be too long for a link.
    let versionIndex: Int32?
    /// The window of a page that is read by the index, whose rows must not have microseconds; otherwise nil.
    let window: InstantWindow?
    /// The visibility condition of the caller, which may be empty.
    let view: SQL
    /// The index of the visibility condition's values among the bindings.
    let viewIndex: Int

    /// Returns the same statement with another offset; the statement must already have one.
    func passing(over offset: Int) -> ListStatement {
        var statement = self
        statement.bindings[bindings.count - 1] = .integer(Int64(offset))
        return statement
    }

    /// Returns the same statement for another caller; nil if the SQL of the visibility condition differs.
    func fitted(to view: SQL) -> ListStatement? {
        let isSameForm = view.text(for: .sqlite).utf8.elementsEqual(
            self.view.text(for: .sqlite).utf8
        )
        guard isSameForm, view.bindings.count == self.view.bindings.count else { return nil }
        var statement = self
        statement.bindings.replaceSubrange(
            viewIndex..<viewIndex + view.bindings.count,
            with: view.bindings
        )
        return statement
    }
}

/// A builder of the statement of a page from the request of a list.
struct ListRenderer {
    private let table: SQLiteTable
    private let request: ListRequest
    private let renderer: FilterRenderer
    private let keyset: KeysetRenderer
    /// The renderer of the order and of the position at which the page begins.
    private let orderRenderer: FilterRenderer
    /// The range of the page in an index, which orders instants by microseconds; nil if the order needs none.
    let window: InstantWindow?
    /// Whether the page is read in the order of the index.
    private let goesByIndex: Bool
    /// The conditions on the rows of the window.
    private var bounds: [QueryExpression] = []

    /// Creates a renderer; `avoidsIndex` is for pages that contain microseconds.
    init(_ request: ListRequest, _ table: SQLiteTable, avoidsIndex: Bool = false) {
        self.table = table
        self.request = request
        renderer = FilterRenderer(schema: table.table.definition.schema, dateUnit: .microseconds)
        window = InstantWindow(
            renderer,
            order: request.order,
            indexes: table.table.definition.indexes
        )
        let begin = Self.firstKey(request).map { Value($0, as: .dateTime) }
        let byIndex = avoidsIndex ? nil : window?.indexRenderer(after: begin)
        goesByIndex = byIndex != nil
        orderRenderer = byIndex ?? renderer
        keyset = KeysetRenderer(orderRenderer, order: request.order)
    }

    /// The statement of the page.
    var page: ListStatement {
        let cells = cells
        let form = request.select == nil ? table.form : RowForm(cells.map { table.cells[$0] })
        let (columns, keyIndexes, versionIndex) = columns(cells)
        var sql: SQL = "SELECT \(columns) FROM \(Identifier(table.name))"
        sql.append(condition(pages: true))
        sql.append(" ORDER BY \(orderRenderer.orderBy(request.order))")
        sql.append(" LIMIT \(SQLValue.integer(Int64(request.rowsMax) + 1))")
        if request.offset > 0 {
            sql.append(" OFFSET \(SQLValue.integer(Int64(request.offset)))")
        }
        return ListStatement(
            text: sql.text(for: .sqlite),
            bindings: sql.bindings,
            form: form,
            keyIndexes: keyIndexes,
            versionIndex: versionIndex,
            window: goesByIndex ? window : nil,
            view: view,
            viewIndex: columns.bindings.count
        )
    }

    /// Returns the first key of the row that the page begins after.
    private static func firstKey(_ request: ListRequest) -> SQLValue? {
        request.after?.first ?? request.anchor?.keys.first
    }

    /// Returns the statement that checks whether rows at the ends of a page have microseconds.
    func check(_ window: InstantWindow, _ ends: [SQLValue]) -> SQL? {
        let ends = ([Self.firstKey(request)] + ends).map { $0.map { Value($0, as: .dateTime) } }
        return window.check(Identifier(table.name), ends)
    }

    /// Returns the statement that reads the end of the window.
    func probe(_ window: InstantWindow) -> SQL {
        var renderer = self
        renderer.bounds = startBounds(window)
        let source = " FROM \(Identifier(table.name))" + renderer.condition(pages: true)
        return window.probe(source, after: request.offset + request.rowsMax)
    }

    /// Returns the same list with a window up to the millisecond of this key.
    func through(_ key: SQLValue, _ window: InstantWindow) -> ListRenderer {
        let first = Self.firstKey(request)
        var renderer = self
        let end = window.through(
            Value(key, as: .dateTime),
            mayBeNull: first == nil || first == .null
        )
        renderer.bounds = startBounds(window) + [end].compactMap { $0 }
        return renderer
    }

    private func startBounds(_ window: InstantWindow) -> [QueryExpression] {
        let begin = Self.firstKey(request).map { Value($0, as: .dateTime) }
        return [window.withInstants(after: begin)].compactMap { $0 }
    }

    /// The statement that counts the rows that match the filter, on all pages.
    var count: SQL {
        "SELECT count(*) FROM \(Identifier(table.name))" + condition(pages: false)
    }

    /// The visibility filter of the caller, whose values precede all others.
    var view: SQL {
        guard let view = request.view else { return SQL() }
        return "(\(renderer.condition(view)))"
    }

    private func condition(pages: Bool) -> SQL {
        var parts: [SQL] = []
        if !request.includesDeleted { parts.append("\"deleted\" = 0") }
        if !view.isEmpty { parts.append(view) }
        // It precedes the filter, because SQLite seeks by the first of two bounds on one column. With the filter's
        // bound it would read all earlier pages again.
        if pages, let begin { parts.append("(\(begin))") }
        if pages { parts += bounds.map { "(\(renderer.condition($0)))" } }
        if let filter = request.filter {
            parts.append("(\(renderer.condition(VersionLiterals.replace(in: filter))))")
        }
        return parts.isEmpty ? "" : " WHERE " + parts.joined(separator: " AND ")
    }

    private var cells: [Int] {
        guard let select = request.select else { return Array(table.cells.indices) }
        return select.compactMap { table.places.firstIndex(of: $0) }
    }

    /// Returns the cells, the other values that a link may need, and their indexes.
    private func columns(_ cells: [Int]) -> (sql: SQL, keys: [Int32], version: Int32?) {
        let names =
            request.select == nil
            ? table.cellNames : cells.map { table.cells[$0].quoted }.joined(separator: ", ")
        var sql = SQL(verbatim: names)
        var count = cells.count
        let keys = keyset.keys.map { key in
            if case .field(let name) = key.expression.kind, !orderRenderer.isCut(key.expression),
                let place = cells.firstIndex(where: { table.cells[$0].name == name })
            {
                return Int32(place)
            }
            if count > 0 { sql.append(", ") }
            sql.append(orderRenderer.value(key.expression))
            count += 1
            return Int32(count - 1)
        }
        guard keyset.keys.contains(where: { !$0.isID && PageToken.mayBeLong(type(of: $0)) }) else {
            return (sql, keys, nil)
        }
        if let place = cells.firstIndex(where: { table.cells[$0].form == .version }) {
            return (sql, keys, Int32(place))
        }
        sql.append(count > 0 ? ", \"version\"" : "\"version\"")
        return (sql, keys, Int32(count))
    }

    private func type(of key: SortKey) -> ExpressionType {
        key.expression.type(in: table.table.definition.schema)
    }

    // MARK: - Where a page begins

    /// Returns the query for the keys of a row that a link identifies by id, if the row has not changed.
    ///
    /// The row must be visible to the caller, because its position reveals something about it.
    func keys(of anchor: PageAnchor) -> SQL {
        let keys = keyset.keys.map { renderer.value($0.expression) }.joined(separator: ", ")
        var sql: SQL = "SELECT \(keys) FROM \(Identifier(table.name))"
        sql.append(
            " WHERE \"id\" = \(.text(anchor.id)) AND \"version\" = \(.integer(anchor.version))"
        )
        if !view.isEmpty { sql.append(" AND \(view)") }
        return sql
    }

    /// The condition on the rows after the previous page.
    private var begin: SQL? {
        if let after = request.after, after.count == keyset.keys.count {
            let values = zip(after, keyset.keys).map { Value($0, as: type(of: $1)) }
            return keyset.condition(after: values)
        }
        return request.anchor.map { anchor in
            let start = PageStart(anchor, in: request.order, keyset)
            return start.keyset.condition(after: start.values)
        }
    }
}
