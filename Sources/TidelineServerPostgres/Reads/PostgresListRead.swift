// PostgresListRead: some conditions are evaluated in SQL, the others in memory.
//
// If SQL can filter and order, the page is one statement. If a part of the filter is not in SQL, rows are read in
// their order and evaluated until the page is full. If SQL does not have the order, all rows of the filter are read
// and the first ones are kept. Both are bounded by the time limit of a query; a page never ends early without a next
// link.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

/// A read of one page of a table.
struct PostgresListRead {
    private let table: PostgresTable
    private let request: ListRequest
    private let exact: QueryExpression?
    private let rest: RowProgram?
    /// A condition on the rows that `rest` may match; nil for all rows.
    private let candidates: SQL?
    private let keys: KeysetRenderer
    /// Whether SQL supports the order.
    private let isOrdered: Bool
    /// The window of a page, for an order that an index has only in microseconds.
    private let window: InstantWindow?
    /// The cells of a row that the page needs; all others are null.
    private let cells: String
    /// The indexes of these cells among columns and system columns; nil for all.
    private let places: Set<Int>?

    init(_ request: ListRequest, _ table: PostgresTable) {
        self.table = table
        self.request = request
        let filter = request.filter.map { VersionLiterals.replace(in: $0) }
        let parts = [request.view, filter].compactMap { $0 }
        let whole = parts.count > 1 ? QueryExpression(.all(parts)) : parts.first
        let split = table.split.split(whole)
        exact = split.exact
        rest = split.rest.map { RowProgram($0, isCondition: true, of: table.table) }
        candidates = split.rest.flatMap { table.renderer.candidates(for: $0) }
        keys = KeysetRenderer(table.renderer, order: request.order)
        isOrdered = table.split.isExact(request.order)
        window = InstantWindow(
            table.renderer,
            order: request.order,
            indexes: table.table.definition.indexes
        )
        places = Self.places(request, table, keys, rest)
        cells = places.map { table.cells(of: $0) } ?? table.cells()
    }

    /// Returns the columns that the page, its filter and its order need.
    private static func places(
        _ request: ListRequest,
        _ table: PostgresTable,
        _ keys: KeysetRenderer,
        _ rest: RowProgram?
    ) -> Set<Int>? {
        guard let select = request.select else { return nil }
        let sorting = keys.keys.flatMap { key in
            RowProgram(key.expression, isCondition: false, of: table.table).places
        }
        let system = table.table.columns.count..<table.columns.count
        return Set(select + sorting + (rest?.places ?? []) + system)
    }

    /// The maximum number of rows of a page that is read with one statement.
    private static let plainRowsMax = 100

    func run(_ read: PostgresRead) throws -> ListPage {
        let isPlain =
            isOrdered && rest == nil && request.anchor == nil && request.rowsMax > 0
            && request.rowsMax <= Self.plainRowsMax && !(request.tie != nil && request.offset > 0)
        guard isPlain else { return try scan(read) }
        let begin = try request.after.map { try PageStart(after: $0, keys) }
        let byIndex = window?.indexRenderer(after: begin?.values.first)
        guard window == nil || byIndex != nil else { return try scan(read) }
        let begun = begin.map { byIndex.map($0.rendered(by:)) ?? $0 }
        var statements = [clock, PostgresStatement(rows(begun, request.offset, by: byIndex))]
        if request.wantsCount { statements.append(PostgresStatement(count)) }
        let results = try read.all(statements)
        let clock = try table.clock(results[0], read)
        var page = ListBuilder(request, table.table, keys)
        try check(results[1])
        let images = (0..<results[1].count).map { table.image(results[1], $0) }
        // The check sees a later state. A row that lost its microseconds in between was edited, and may have moved to
        // an earlier page like every row whose key is edited.
        if let window, try hasMicroseconds(window, begin, images.map(\.allValues), read.one) {
            return try scan(read, avoidsIndex: true)
        }
        for image in images where try !page.add(image) { break }
        let count = request.wantsCount ? results[2].integer(0, 0) : nil
        return page.finish(count, clock, read.watch)
    }

    private func check(_ result: PostgresResult) throws {
        try table.checkTypes(result, of: places)
    }

    private var clock: PostgresStatement { table.clockStatement }

    /// Returns whether any row has microseconds, for a page that was read by the index.
    ///
    /// It checks the rows of the page and those in the milliseconds at its ends.
    private func hasMicroseconds(
        _ window: InstantWindow,
        _ begin: PageStart?,
        _ rows: [[SQLValue]],
        _ run: (PostgresStatement) throws -> PostgresResult
    ) throws -> Bool {
        guard let place = table.table.place(of: window.name) else { return true }
        let keys = rows.map { $0[place] }
        if keys.contains(where: InstantWindow.hasMicroseconds) { return true }
        let ends = [keys.first, keys.last].map { $0.map { Value($0, as: .dateTime) } }
        let begin: Value? = begin?.values.first
        guard let sql = window.check(Identifier(table.name), [begin] + ends) else { return false }
        return try run(PostgresStatement(sql)).count > 0
    }

    private func scan(_ read: PostgresRead, avoidsIndex: Bool = false) throws -> ListPage {
        var first = [clock]
        if let anchor = request.anchor { first.append(row(anchor.id)) }
        if let tie = request.tie, request.offset > 0 { first.append(departures(from: tie)) }
        return try read.transaction(first) { results in
            let clock = try table.clock(results[0], read)
            var offset = request.offset
            if request.tie != nil, offset > 0, let left = results.last {
                offset = max(0, offset - Int(clamping: left.integer(0, 0)))
            }
            let begin = try begin(read, request.anchor == nil ? nil : results[1])
            let watch = read.watch
            var page = ListBuilder(request, table.table, keys)
            if request.rowsMax > 0 {
                if isOrdered, let window {
                    let isByIndex =
                        try !avoidsIndex && fillByIndex(&page, window, begin, offset, read, watch)
                    if !isByIndex { try fill(&page, window, begin, offset, read, watch) }
                } else if isOrdered {
                    try fill(&page, begin, offset, read, watch)
                } else {
                    try fillUnordered(&page, begin, offset, read, watch)
                }
            }
            let count = request.wantsCount ? try count(read, watch) : nil
            return page.finish(count, clock, read.watch)
        }
    }

    private func fill(
        _ page: inout ListBuilder,
        _ begin: PageStart?,
        _ offset: Int,
        _ read: PostgresRead,
        _ watch: EvaluationWatch
    ) throws {
        var toSkip = rest == nil ? 0 : offset
        var rows = page
        let rowsOfPage = self.rows(begin, rest == nil ? offset : 0)
        try read.forEach(rowsOfPage, checkResult: check) { result, row in
            let image = table.image(result, row)
            if let rest, !rest.holds(image, watch) { return true }
            if toSkip > 0 {
                toSkip -= 1
                return true
            }
            return try rows.add(image)
        }
        page = rows
        if watch.isOver { try read.check() }
    }

    /// Fills the page in the order of the index; returns false if rows have microseconds.
    private func fillByIndex(
        _ page: inout ListBuilder,
        _ window: InstantWindow,
        _ begin: PageStart?,
        _ offset: Int,
        _ read: PostgresRead,
        _ watch: EvaluationWatch
    ) throws -> Bool {
        guard let renderer = window.indexRenderer(after: begin?.values.first),
            let place = table.table.place(of: window.name)
        else { return false }
        var toSkip = rest == nil ? 0 : offset
        var rows = page
        var ends: [[SQLValue]] = []
        var isWhole = true
        let begun = begin.map { $0.rendered(by: renderer) }
        let sql = self.rows(begun, rest == nil ? offset : 0, by: renderer)
        try read.forEach(sql, checkResult: check) { result, row in
            let image = table.image(result, row)
            let values = image.allValues
            isWhole = !InstantWindow.hasMicroseconds(values[place])
            guard isWhole else { return false }
            ends = [ends.first ?? values, values]
            if let rest, !rest.holds(image, watch) { return true }
            if toSkip > 0 {
                toSkip -= 1
                return true
            }
            return try rows.add(image)
        }
        if watch.isOver { try read.check() }
        if try !isWhole || hasMicroseconds(window, begin, ends, read.connection.run) {
            return false
        }
        page = rows
        return true
    }

    /// Fills the page window by window.
    private func fill(
        _ page: inout ListBuilder,
        _ window: InstantWindow,
        _ begin: PageStart?,
        _ offset: Int,
        _ read: PostgresRead,
        _ watch: EvaluationWatch
    ) throws {
        page = ListBuilder(request, table.table, keys)
        var toSkip = rest == nil ? 0 : offset
        var wanted = offset + request.rowsMax
        var mayBeNull = begin?.values.first?.isNull ?? true
        var start = window.withInstants(after: begin?.values.first)
        var isFirst = true
        var isFull = false
        while !isFull {
            let key = try probe(window, begin, start, wanted, read)
            if key == nil, isFirst { start = nil }
            isFirst = false
            let end = key.flatMap { window.through($0, mayBeNull: mayBeNull) }
            var rows = page
            let rowsOfWindow = self.rows(
                begin,
                rest == nil ? offset : 0,
                [start, end].compactMap { $0 }
            )
            try read.forEach(rowsOfWindow, checkResult: check) { result, row in
                let image = table.image(result, row)
                if let rest, !rest.holds(image, watch) { return true }
                if toSkip > 0 {
                    toSkip -= 1
                    return true
                }
                isFull = try !rows.add(image)
                return !isFull
            }
            page = rows
            guard let key, let next = window.after(key), !watch.isOver else { break }
            start = next
            mayBeNull = false
            // The part of the filter that is not in SQL can reject any number of rows.
            wanted = min(wanted * 4, Self.windowRowsMax)
        }
        if watch.isOver { try read.check() }
    }

    /// The approximate maximum number of rows in a window.
    private static let windowRowsMax = 20_000

    /// Reads the key of the row that ends a window of about `count` rows; nil if there are fewer.
    private func probe(
        _ window: InstantWindow,
        _ begin: PageStart?,
        _ start: QueryExpression?,
        _ count: Int,
        _ read: PostgresRead
    ) throws -> Value? {
        let sql = window.probe(from(begin, start.map { [$0] } ?? []), after: count)
        let result = try read.connection.run(PostgresStatement(sql))
        guard result.count > 0 else { return nil }
        if result.isNull(0, 0) { return .null }
        let time = Timestamp(microseconds: PostgresColumn.instant(result.integer(0, 0)))
        return .date(time.cutToMilliseconds.date)
    }

    private func fillUnordered(
        _ page: inout ListBuilder,
        _ begin: PageStart?,
        _ offset: Int,
        _ read: PostgresRead,
        _ watch: EvaluationWatch
    ) throws {
        // All rows of the filter would be kept in memory for a page that begins after the last one.
        if offset > Self.uncountedOffsetMax {
            let rowsMax = try read.connection.run(PostgresStatement(count)).integer(0, 0)
            guard rowsMax > Int64(offset) else { return }
        }
        var least = LeastRows(keys, table.table, count: offset + request.rowsMax + 1)
        let behind = begin.map {
            RowProgram(
                $0.keyset.expression(after: $0.values),
                isCondition: true,
                of: table.table
            )
        }
        let all: SQL = "SELECT \(SQL(verbatim: cells))\(from(nil))"
        try read.forEach(all, checkResult: check) { result, row in
            let image = table.image(result, row)
            if let rest, !rest.holds(image, watch) { return true }
            if let behind, !behind.holds(image, watch) { return true }
            least.take(image, watch)
            return true
        }
        if watch.isOver { try read.check() }
        for image in least.sorted.dropFirst(offset) where try !page.add(image) { break }
    }

    /// The maximum offset for which the rows are not counted first.
    private static let uncountedOffsetMax = 10_000

    private func count(_ read: PostgresRead, _ watch: EvaluationWatch) throws -> Int64 {
        guard let rest else {
            return try read.connection.run(PostgresStatement(count)).integer(0, 0)
        }
        var count: Int64 = 0
        let all: SQL = "SELECT \(SQL(verbatim: cells))\(from(nil))"
        try read.forEach(all, checkResult: check) { result, row in
            if rest.holds(table.image(result, row), watch) { count += 1 }
            return true
        }
        if watch.isOver { try read.check() }
        return count
    }

    // MARK: - Statements

    private func rows(
        _ begin: PageStart?,
        _ offset: Int,
        _ bounds: [QueryExpression] = [],
        by renderer: FilterRenderer? = nil
    ) -> SQL {
        var sql: SQL = "SELECT \(SQL(verbatim: cells))\(from(begin, bounds))"
        sql.append(" ORDER BY \((renderer ?? table.renderer).orderBy(request.order))")
        if rest == nil {
            sql.append(" LIMIT \(SQLValue.integer(Int64(request.rowsMax) + 1))")
            if offset > 0 { sql.append(" OFFSET \(SQLValue.integer(Int64(offset)))") }
        }
        return sql
    }

    /// The statement that counts the rows that match the filter, on all pages.
    private var count: SQL { "SELECT count(*)" + from(nil) }

    private func from(_ begin: PageStart?, _ bounds: [QueryExpression] = []) -> SQL {
        var parts: [SQL] = []
        if !request.includesDeleted { parts.append("NOT \"deleted\"") }
        if let begin { parts.append("(\(begin.keyset.condition(after: begin.values)))") }
        parts += bounds.map { "(\(self.table.renderer.condition($0)))" }
        if let exact { parts.append("(\(table.renderer.condition(exact)))") }
        if let candidates { parts.append("(\(candidates))") }
        let table: SQL = " FROM \(Identifier(self.table.name))"
        return parts.isEmpty ? table : table + " WHERE " + parts.joined(separator: " AND ")
    }

    private func row(_ id: String) -> PostgresStatement {
        PostgresStatement(
            "SELECT \(table.cells()) FROM \(table.quoted) WHERE \"id\" = $1",
            values: [.text(id)]
        )
    }

    /// Returns the statement for the number of rows that have left a millisecond since a reader counted its rows.
    private func departures(from tie: Int64) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT coalesce(sum(CASE
                WHEN "millisecond" = $2 THEN "count"
                WHEN "count" >= $2 THEN \(PostgresClock.all)
            END), 0)::bigint FROM tideline.departures
            WHERE "table" = $1 AND "millisecond" IN ($2, \(PostgresClock.unknown))
            """,
            values: [.text(table.clock), .integer(tie)]
        )
    }

    // MARK: - Where a page begins

    private func begin(_ read: PostgresRead, _ found: PostgresResult?) throws -> PageStart? {
        guard let anchor = request.anchor else {
            return try request.after.map { try PageStart(after: $0, keys) }
        }
        if let found, found.count > 0 {
            let image = table.image(found, 0)
            if image.version == anchor.version, image.isVisible(in: request.view, of: table.table) {
                let values = ListBuilder.keys(of: image, keys, table.table, read.watch)
                return try PageStart(after: values, keys)
            }
        }
        return PageStart(anchor, in: request.order, keys)
    }
}
