// ListRead: one page of a table: its statement, run, and its rows as JSON.

import Synchronization
import TidelineCore
import TidelineSQLite
import TidelineServerCore

struct ListRead {
    let table: SQLiteTable
    let request: ListRequest
    /// Nil while the place where the page begins has to be read.
    private let statement: ListStatement?

    init(_ request: ListRequest, _ table: SQLiteTable) {
        self.table = table
        self.request = request
        statement = request.mark == nil ? Self.statement(request, table) : nil
    }

    private init(_ request: ListRequest, _ table: SQLiteTable, _ statement: ListStatement) {
        self.table = table
        self.request = request
        self.statement = statement
    }

    /// The most bytes of a page; one of more throws ``RowTooLargeForLoop``.
    var loopBytesMax = Int.max

    /// What stands for the statement among those whose costs are known; empty when it is not known
    /// before the database was asked.
    var knownText: String {
        guard let statement else { return "" }
        return request.wantsCount ? "count " + statement.text : statement.text
    }

    func run(_ database: Database) throws -> ListPage {
        if statement == nil, let mark = request.mark {
            var begun = try begun(at: mark, database)
            begun.loopBytesMax = loopBytesMax
            return try begun.run(database)
        }
        guard let tie = request.tie else { return try page(database, offset: request.offset) }
        let ties = table.head.ties
        let mark = ties.mark()
        // Before the state of the table is taken: what is written to it later is set apart.
        table.head.isCounted.store(true, ordering: .sequentiallyConsistent)
        while true {
            let left = request.offset > 0 ? ties.left(tie) : 0
            let page = try page(database, offset: max(0, request.offset - left))
            if request.offset > 0 && ties.left(tie) != left { continue }
            if let last = page.lastUpdatedAt { ties.watch(last, since: mark) }
            return page
        }
    }

    /// The same page by the keys of the row that it begins behind.
    private func begun(at mark: PageMark, _ database: Database) throws -> ListRead {
        let sql = ListRenderer(request, table).keys(of: mark)
        let statement = try database.prepare(sql.text(for: .sqlite))
        defer { statement.reset() }
        try statement.bind(sql.bindings)
        var request = request
        if try statement.step() {
            request.mark = nil
            request.after = (0..<statement.columnCount).map(statement.value)
            return ListRead(request, table)
        }
        return ListRead(request, table, Self.statement(request, table))
    }

    /// The page, and the count where it is wanted.
    private func page(_ database: Database, offset: Int) throws -> ListPage {
        guard request.wantsCount else { return try rows(database, offset: offset) }
        // Counts and rows of one state of the table.
        return try database.snapshot {
            var page = try rows(database, offset: offset)
            let sql = ListRenderer(request, table).count
            page.count = try database.integer(sql.text(for: .sqlite), sql.bindings)
            return page
        }
    }

    /// The statement, rendered once for a plan that is kept.
    private static func statement(_ request: ListRequest, _ table: SQLiteTable) -> ListStatement {
        let kept = request.kept?.value as? ListStatement
        if let kept, request.view == nil, kept.view.isEmpty { return kept }
        let renderer = ListRenderer(request, table)
        if let fitting = kept?.fitted(to: renderer.view) { return fitting }
        let statement = renderer.page
        request.kept?.value = statement
        return statement
    }

    private func rows(_ database: Database, offset: Int) throws -> ListPage {
        var json = RowBytes(rowsMax: request.rowsMax)
        json.append(request.opening)
        guard request.rowsMax > 0 else { return ListPage(bytes: json.bytes, rows: 0) }
        let made = statement ?? Self.statement(request, table)
        let statement = try database.prepare(made.text)
        defer { statement.reset() }
        try statement.bind(
            offset == request.offset ? made.bindings : made.passing(over: offset).bindings
        )
        var rows = 0
        var next: [SQLValue]?
        var version: Int64?
        var last: Int64?
        var hasMore = false
        var roomEnd = request.room?.begin() ?? .max
        while try statement.step() {
            if rows == request.rowsMax {
                hasMore = true
                break
            }
            let end = json.count
            if rows > 0 { json.byte(UInt8(ascii: ",")) }
            json.row(made.form, statement)
            if rows > 0, json.count - request.opening.count > request.bytesMax {
                json.cut(to: end)
                hasMore = true
                break
            }
            if json.count > loopBytesMax { throw RowTooLargeForLoop() }
            if let room = request.room, json.count > roomEnd {
                roomEnd = try room.more(for: json.count)
            }
            rows += 1
            if request.tie != nil { last = statement.integer(made.keyPlaces[0]) }
            // Keys are read only where the page may end.
            if rows == request.rowsMax || json.count > request.bytesMax / 2 {
                next = made.keyPlaces.map(statement.value)
                version = made.versionPlace.map(statement.integer)
            }
        }
        return ListPage(
            bytes: json.bytes,
            rows: rows,
            next: hasMore ? next : nil,
            nextVersion: hasMore ? version : nil,
            lastUpdatedAt: last
        )
    }
}
