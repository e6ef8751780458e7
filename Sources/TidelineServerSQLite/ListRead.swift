// ListRead: one page of a table: its statement, run, and its rows as JSON.

import Synchronization
import TidelineCore
import TidelineSQLite
import TidelineServerCore

struct ListRead {
    let table: SQLiteTable
    let request: ListRequest

    init(_ request: ListRequest, _ table: SQLiteTable) {
        self.table = table
        self.request = request
    }

    func run(_ database: Database) throws -> ListPage {
        // Before the state of the table is taken: what is written to it later is set apart.
        if request.countsTies {
            table.head.isCounted.store(true, ordering: .sequentiallyConsistent)
        }
        guard request.wantsCount || request.offsetBelow != nil && request.offset > 0 else {
            return try page(database)
        }
        // Counts and rows of one state of the table.
        return try database.snapshot {
            var page = try page(database)
            guard request.wantsCount else { return page }
            let sql = ListRenderer(request, table).count
            page.count = try database.integer(sql.text(for: .sqlite), sql.bindings)
            return page
        }
    }

    /// The statement, rendered once for a plan that is kept.
    private func statement(_ database: Database) throws -> ListStatement {
        let kept = request.kept?.value as? ListStatement
        if let kept, request.view == nil, kept.view.isEmpty { return kept }
        let renderer = ListRenderer(request, table)
        if let fitting = kept?.fitted(to: renderer.view) { return fitting }
        let statement = renderer.page(offset: try offset(database, renderer))
        request.kept?.value = statement
        return statement
    }

    /// The rows to pass over: no more than there are below the bound.
    private func offset(_ database: Database, _ renderer: ListRenderer) throws -> Int64 {
        let offset = Int64(request.offset)
        guard offset > 0, let bound = request.offsetBelow else { return offset }
        let sql = renderer.offset(below: bound)
        return try database.integer(sql.text(for: .sqlite), sql.bindings) ?? 0
    }

    private func page(_ database: Database) throws -> ListPage {
        var json = RowBytes(capacity: 256 + min(request.rowsMax, 1000) * 256)
        json.append(request.opening)
        guard request.rowsMax > 0 else { return ListPage(bytes: json.bytes, rows: 0) }
        let page = try self.statement(database)
        let statement = try database.prepare(page.text)
        defer { statement.reset() }
        try statement.bind(page.bindings)
        var rows = 0
        var next: [SQLValue]?
        while try statement.step() {
            if rows == request.rowsMax {
                return ListPage(bytes: json.bytes, rows: rows, next: next)
            }
            let end = json.count
            if rows > 0 { json.byte(UInt8(ascii: ",")) }
            json.row(page.form, statement)
            if rows > 0, json.count - request.opening.count > request.bytesMax {
                json.cut(to: end)
                return ListPage(bytes: json.bytes, rows: rows, next: next)
            }
            rows += 1
            // Keys are read only where the page may end.
            if rows == request.rowsMax || json.count > request.bytesMax / 2 {
                next = page.keyPlaces.map(statement.value)
            }
        }
        return ListPage(bytes: json.bytes, rows: rows)
    }
}
