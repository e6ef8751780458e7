// ListPlan: plans the read of a list.

import TidelineCore

/// A list's options checked against a table: the request to the database, and the links.
package struct ListPlan: Sendable {
    package var request = ListRequest()
    /// The page size that results from the caller's preference.
    package private(set) var pageSizeApplied: Int?
    let generation: Generation
    let options: ListOptions
    /// Whether the query uses the current time, so that its plan is valid for one request only.
    private(set) var dependsOnTime = false
    /// The types of the sort keys, the id last.
    private var keyTypes: [ExpressionType] = [.string]

    /// Whether the page is the first one.
    var isFirstPage: Bool { options.token == nil && options.skip == 0 }

    /// Whether changes after the list can be tracked.
    ///
    /// Rows must not enter or leave the list just because time passes, and neither an offset nor a limit of
    /// zero is allowed.
    var canTrackChanges: Bool {
        generation == .datasync && !dependsOnTime && options.skip == 0 && options.top != 0
    }

    /// Creates a plan; nil if a dynamic schema lacks a column of the query, so that no row can match.
    package init?(
        _ options: ListOptions,
        table: Table,
        generation: Generation,
        pageSizeWanted: Int? = nil,
        limits: ServerLimits,
        isDynamic: Bool,
        now: Int64
    ) throws {
        self.generation = generation
        self.options = options
        let topMax = Self.topMax(table, generation)
        if let top = options.top, top > topMax {
            throw ServerError.badRequest("Option '$top' may be at most \(topMax) (maxTop).")
        }
        var size = table.definition.pageSize ?? (generation == .classic ? 50 : 100)
        pageSizeApplied = Self.applied(pageSizeWanted, table, generation)
        size = pageSizeApplied ?? size
        request.rowsMax =
            generation == .classic ? options.top ?? size : min(options.top ?? size, size)
        request.bytesMax = limits.pageBytes
        request.offset = min(options.skip, Self.offsetMax)
        request.wantsCount = options.wantsCount
        request.opening = Array(Self.opening(generation, wantsCount: options.wantsCount).utf8)
        do {
            try readTexts(table, now: now)
        } catch {
            if isDynamic && error.reason == .unknownColumn { return nil }
            throw ServerError.badRequest(error.message, position: error.position)
        }
        if generation == .classic { request.tie = tie }
        if let token = options.token {
            switch PageToken(token, keyTypes) {
            case .keys(let keys): request.after = keys
            case .anchor(let anchor): request.anchor = anchor
            case nil:
                throw ServerError.badRequest(
                    "Option '$skiptoken' is not from a next link of this query."
                )
            }
        }
    }

    /// Returns the default maximum of rows for a request, as in the original servers.
    private static func topMax(_ table: Table, _ generation: Generation) -> Int {
        table.definition.maxTop ?? (generation == .classic ? classicTopMax : datasyncTopMax)
    }

    /// The largest offset of a page: more rows than a table can have, and small enough for sums that do not overflow.
    private static let offsetMax = 1 << 48
    private static let classicTopMax = 1000
    private static let datasyncTopMax = 128_000

    /// Returns the page size that results from a caller's preference.
    static func applied(_ wanted: Int?, _ table: Table, _ generation: Generation) -> Int? {
        guard generation == .datasync else { return nil }
        return wanted.map { min($0, topMax(table, generation)) }
    }

    private mutating func readTexts(_ table: Table, now: Int64) throws(ODataError) {
        let schema = table.definition.schema
        let checker = FilterChecker(schema: schema, now: Timestamp(microseconds: now).date)
        let dialect: ODataDialect = generation == .classic ? .v3 : .v4
        if let text = options.filter {
            let filter = try ODataParser.filter(text, dialect: dialect)
            dependsOnTime = filter.calls(.now)
            request.filter = try checker.filter(filter)
        }
        if let text = options.order {
            let keys = try ODataParser.orderBy(text, dialect: dialect)
            dependsOnTime = dependsOnTime || keys.contains { $0.expression.calls(.now) }
            let order = try checker.order(keys)
            let id = order.firstIndex { $0.expression.kind == .field(SystemColumn.id) }
            request.order = id.map { Array(order[...$0]) } ?? order
            keyTypes = request.order.map { PageToken.type(of: $0, in: schema) }
            if id == nil { keyTypes.append(.string) }
        }
        if let text = options.select {
            let all = schema.columns + SystemColumn.definitions
            let names = try ODataParser.select(text, dialect: dialect)
            request.select = try names.map(checker.select)?.compactMap { name in
                all.firstIndex { $0.name == name }
            }
        }
    }

    /// The millisecond T in the queries of classic pulls.
    ///
    /// These pulls request `updatedAt ge T` in the order of `updatedAt`, and skip the rows of that millisecond that
    /// they already have.
    private var tie: Int64? {
        guard let filter = request.filter, request.order.first?.isAscending == true,
            request.order.first?.expression.kind == .field(SystemColumn.updatedAt)
        else { return nil }
        guard let start = Self.starts(of: filter).max(), start % 1000 == 0 else { return nil }
        return start / 1000
    }

    /// Returns the instants T of all conditions `updatedAt ge T` that every matching row must satisfy.
    private static func starts(of filter: QueryExpression) -> [Int64] {
        switch filter.kind {
        case .all(let parts): return parts.flatMap(starts)
        case .compare(.ge, let left, let right):
            guard left.kind == .field(SystemColumn.updatedAt),
                case .value(.date(let date)) = right.kind
            else { return [] }
            return [Timestamp(date).microseconds]
        case .field, .value, .compare, .any, .not, .arithmetic, .negate, .call, .isIn, .position,
            .orElse, .member, .elementCount, .anyElement, .element, .search, .related,
            .localizedCompare:
            return []
        }
    }

    private static func opening(_ generation: Generation, wantsCount: Bool) -> String {
        switch generation {
        case .classic: wantsCount ? "{\"results\":[" : "["
        case .datasync: "{\"items\":["
        }
    }

    /// Returns an empty page in the format of a generation.
    package static func emptyPage(_ options: ListOptions, _ generation: Generation) -> ListPage {
        ListPage(
            bytes: Array(opening(generation, wantsCount: options.wantsCount).utf8),
            rows: 0,
            count: options.wantsCount ? 0 : nil
        )
    }
}
