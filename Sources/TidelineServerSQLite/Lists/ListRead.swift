// ListRead: reads lists.

import Synchronization
import TidelineCore
import TidelineSQLite
import TidelineServerCore

/// A read of one page of a table, as JSON.
struct ListRead {
    let table: SQLiteTable
    let request: ListRequest
    /// The statement; nil until the position where the page begins was read.
    private let statement: ListStatement?

    init(_ request: ListRequest, _ table: SQLiteTable) {
        self.table = table
        self.request = request
        statement = request.anchor == nil ? Self.statement(request, table) : nil
    }

    private init(_ request: ListRequest, _ table: SQLiteTable, _ statement: ListStatement) {
        self.table = table
        self.request = request
        self.statement = statement
    }

    /// The maximum number of bytes of a page; a larger one throws ``RowTooLargeForLoop``.
    var loopBytesMax = Int.max

    /// The string under which the cost of the statement is recorded; empty if it depends on a query that has
    /// not run yet.
    var knownText: String {
        guard let statement else { return "" }
        return request.wantsCount ? "count " + statement.text : statement.text
    }

    func run(_ database: Database) throws -> ListPage {
        if statement == nil, let anchor = request.anchor {
            var begun = try begun(at: anchor, database)
            begun.loopBytesMax = loopBytesMax
            return try begun.run(database)
        }
        guard let tie = request.tie else { return try page(database, offset: request.offset) }
        let ties = table.head.ties
        let departures = ties.departureCount()
        // The flag is set before the snapshot, so that later writes get a different millisecond.
        table.head.isCounted.store(true, ordering: .sequentiallyConsistent)
        while true {
            let left = request.offset > 0 ? ties.left(tie) : 0
            let page = try page(database, offset: max(0, request.offset - left))
            if request.offset > 0 && ties.left(tie) != left { continue }
            if let last = page.lastUpdatedAt { ties.watch(last, since: departures) }
            return page
        }
    }

    /// Returns the same page with the keys of the row that it begins after.
    private func begun(at anchor: PageAnchor, _ database: Database) throws -> ListRead {
        let sql = ListRenderer(request, table).keys(of: anchor)
        let statement = try database.prepare(sql.text(for: .sqlite))
        defer { statement.reset() }
        try statement.bind(sql.bindings)
        var request = request
        if try statement.step() {
            request.anchor = nil
            request.after = (0..<statement.columnCount).map(statement.value)
            return ListRead(request, table)
        }
        return ListRead(request, table, Self.statement(request, table))
    }

    /// Returns the page, and the count if it was requested.
    private func page(_ database: Database, offset: Int) throws -> ListPage {
        let window = request.rowsMax > 0 ? ListRenderer(request, table).window : nil
        guard request.wantsCount || window != nil else {
            return try rows(database, offset: offset)
        }
        // Counts, windows and rows come from one snapshot of the table.
        return try database.snapshot {
            var page =
                if let window {
                    try rows(database, offset: offset, in: window)
                } else {
                    try rows(database, offset: offset)
                }
            guard request.wantsCount else { return page }
            let sql = ListRenderer(request, table).count
            page.count = try database.integer(sql.text(for: .sqlite), sql.bindings)
            return page
        }
    }

    /// Returns the statement, which is rendered once for a cached plan.
    private static func statement(_ request: ListRequest, _ table: SQLiteTable) -> ListStatement {
        let cached = request.rendering?.value as? ListStatement
        if let cached, request.view == nil, cached.view.isEmpty { return cached }
        let renderer = ListRenderer(request, table)
        if let fitting = cached?.fitted(to: renderer.view) { return fitting }
        let statement = renderer.page
        request.rendering?.value = statement
        return statement
    }

    private func rows(_ database: Database, offset: Int) throws -> ListPage {
        try page(statement ?? Self.statement(request, table), database, offset: offset).page
    }

    /// Reads the rows in the order of the index, or the rows of a window if they have microseconds.
    private func rows(
        _ database: Database,
        offset: Int,
        in window: InstantWindow
    ) throws -> ListPage {
        let rendered = statement ?? Self.statement(request, table)
        if rendered.window != nil {
            let (page, ends) = try page(rendered, database, offset: offset)
            if let ends, try !hasMicroseconds(window, ends, database) { return page }
        }
        return try page(statement(in: window, database), database, offset: offset).page
    }

    private func hasMicroseconds(
        _ window: InstantWindow,
        _ ends: [SQLValue],
        _ database: Database
    ) throws -> Bool {
        guard let sql = ListRenderer(request, table).check(window, ends) else { return false }
        return try database.integer(sql.text(for: .sqlite), sql.bindings) != nil
    }

    /// Reads the end of the window, and returns the statement of the page within it.
    private func statement(
        in window: InstantWindow,
        _ database: Database
    ) throws -> ListStatement {
        let renderer = ListRenderer(request, table, avoidsIndex: true)
        let sql = renderer.probe(window)
        let probe = try database.prepare(sql.text(for: .sqlite))
        defer { probe.reset() }
        try probe.bind(sql.bindings)
        return try probe.step() ? renderer.through(probe.value(0), window).page : renderer.page
    }

    /// Reads the page of a statement.
    ///
    /// - Returns: The page and, if it was read by the index, the first keys of its ends. Nil if it was read by
    ///   the index and a row has microseconds.
    private func page(
        _ rendered: ListStatement,
        _ database: Database,
        offset: Int
    ) throws -> (page: ListPage, ends: [SQLValue]?) {
        var json = RowBytes(rowsMax: request.rowsMax)
        json.append(request.opening)
        guard request.rowsMax > 0 else {
            return (ListPage(bytes: json.bytes, rows: 0), [])
        }
        let statement = try database.prepare(rendered.text)
        defer { statement.reset() }
        try statement.bind(
            offset == request.offset ? rendered.bindings : rendered.passing(over: offset).bindings
        )
        var rows = 0
        var next: [SQLValue]?
        var version: Int64?
        var last: Int64?
        var hasMore = false
        var reservedBytes = request.reservation?.begin() ?? .max
        var ends: [SQLValue] = []
        while try statement.step() {
            if rendered.window != nil {
                let key = statement.value(rendered.keyIndexes[0])
                if InstantWindow.hasMicroseconds(key) {
                    return (ListPage(bytes: [], rows: 0), nil)
                }
                ends = [ends.first ?? key, key]
            }
            if rows == request.rowsMax {
                hasMore = true
                break
            }
            let end = json.count
            if rows > 0 { json.byte(UInt8(ascii: ",")) }
            json.row(rendered.form, statement)
            if rows > 0, json.count - request.opening.count > request.bytesMax {
                json.cut(to: end)
                hasMore = true
                break
            }
            if json.count > loopBytesMax { throw RowTooLargeForLoop() }
            if let reservation = request.reservation, json.count > reservedBytes {
                reservedBytes = try reservation.more(for: json.count)
            }
            rows += 1
            if request.tie != nil { last = statement.integer(rendered.keyIndexes[0]) }
            // Keys are read only for a row that may be the last of the page.
            if rows == request.rowsMax || json.count > request.bytesMax / 2 {
                next = rendered.keyIndexes.map(statement.value)
                version = rendered.versionIndex.map(statement.integer)
            }
        }
        let page = ListPage(
            bytes: json.bytes,
            rows: rows,
            next: hasMore ? next : nil,
            nextVersion: hasMore ? version : nil,
            lastUpdatedAt: last
        )
        return (page, ends)
    }
}
