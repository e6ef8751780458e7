// MemoryReader: lists, changes and digests of the in-memory backend.

import TidelineCore
import TidelineServerCore

/// The reads of a table in one snapshot of the database.
struct MemoryReader {
    private let stored: StoredTable
    private let table: MemoryTable

    /// Creates a reader; throws a rejection if the table does not exist.
    init(_ state: MemoryState, _ table: Table) throws {
        self.table = MemoryTable(table)
        stored = try state.table(self.table)
    }

    /// Returns the row, even if it is a tombstone; nil if it is not visible.
    func image(_ id: String, view: QueryExpression?) -> RowImage? {
        stored.image(id, table).flatMap { $0.isVisible(in: view, of: table.table) ? $0 : nil }
    }

    // MARK: - Lists

    func list(_ request: ListRequest) throws -> ListPage {
        let rows = rows(in: request.view, request.filter).filter {
            request.includesDeleted || !$0.isDeleted
        }
        let renderer = FilterRenderer(
            schema: table.table.definition.schema,
            dateUnit: .microseconds
        )
        let keys = KeysetRenderer(renderer, order: request.order)
        let start = try start(of: request, keys).map {
            program($0.keyset.expression(after: $0.values))
        }
        var sorted = LeastRows(keys, table.table, count: rows.count)
        for row in rows where start?.holds(row, nil) ?? true { sorted.take(row, nil) }
        var page = ListBuilder(request, table.table, keys)
        for row in sorted.sorted.dropFirst(offset(of: request)) where try !page.add(row) { break }
        return page.finish(request.wantsCount ? Int64(rows.count) : nil, stored.clock, nil)
    }

    /// Returns the position after which a page begins; nil for the first page.
    private func start(of request: ListRequest, _ keys: KeysetRenderer) throws -> PageStart? {
        guard let anchor = request.anchor else {
            return try request.after.map { try PageStart(after: $0, keys) }
        }
        guard let row = image(anchor.id, view: request.view), row.version == anchor.version else {
            return PageStart(anchor, in: request.order, keys)
        }
        return try PageStart(after: ListBuilder.keys(of: row, keys, table.table, nil), keys)
    }

    /// Returns the number of rows that a page skips.
    ///
    /// A classic client skips the rows of the last page's millisecond that it already has. There was only one. If it has
    /// left the millisecond since, the client would skip another row.
    private func offset(of request: ListRequest) -> Int {
        guard let tie = request.tie, request.offset > 0, stored.leftMilliseconds.contains(tie)
        else { return request.offset }
        return request.offset - 1
    }

    // MARK: - Changes

    /// A change as a caller sees it.
    private struct Change {
        var timestamp: Int64
        var row: RowImage
        /// Whether the row is reported as removed.
        var isRemoved: Bool
        /// Whether a removed row was deleted.
        var isDeleted: Bool
    }

    func changes(_ request: ChangeRequest) throws -> ChangePage {
        // If the link is from a later time, the database lost the state that it belongs to.
        guard request.after <= stored.clock.timestamp else { throw ServerError.epochChanged }
        let end = scanEnd(of: request)
        let changes = (written(request) + departures(request))
            .filter { $0.timestamp > request.after && $0.timestamp <= end ?? .max }
            .sorted { $0.timestamp < $1.timestamp }
        var page = ChangeBuilder(request, table.table)
        var isFull = false
        for change in changes where !isFull {
            isFull =
                try change.isRemoved
                ? !page.add(removed: change.row.id, change.isDeleted, change.timestamp)
                : !page.add(change.row)
        }
        var result = page.finish(isFull ? page.last : end, stored.clock)
        if request.wantsCount, end == nil {
            result.count = Int64(Set(changes.map { MemoryRow.key($0.row.id) }).count)
        }
        return result
    }

    /// Returns the commit timestamp up to which rows and log entries are read; nil for no limit.
    private func scanEnd(of request: ChangeRequest) -> Int64? {
        let timestamps = stored.rows.values.map(\.timestamp) + stored.log.map(\.timestamp)
        let scanned = timestamps.filter { $0 > request.after }.sorted()
        return scanned.count < request.scanMax ? nil : scanned[request.scanMax - 1]
    }

    /// Returns the visible rows by their last change.
    private func written(_ request: ChangeRequest) -> [Change] {
        let filter = request.filter.map { program(VersionLiterals.replace(in: $0)) }
        return rows(in: request.view, nil).map { row in
            let isRemoved = row.isDeleted || !(filter?.holds(row, nil) ?? true)
            return Change(
                timestamp: row.version,
                row: row,
                isRemoved: isRemoved,
                isDeleted: row.isDeleted
            )
        }
    }

    /// Returns the changes by which rows left the visibility filter, without those that are in it now.
    private func departures(_ request: ChangeRequest) -> [Change] {
        stored.log.compactMap { departure in
            let row = table.image(departure.row)
            guard row.isVisible(in: request.view, of: table.table),
                image(row.id, view: request.view) == nil
            else { return nil }
            return Change(
                timestamp: departure.timestamp,
                row: row,
                isRemoved: true,
                isDeleted: departure.isDeleted
            )
        }
    }

    // MARK: - Digests

    func digest(_ request: DigestRequest) -> TableDigest {
        let rows = rows(in: request.view, request.filter)
            .filter { row in
                !row.isDeleted
                    && request.after.map { ValueOrder.text($0, row.id) < 0 } ?? true
                    && request.upTo.map { ValueOrder.text($0, row.id) >= 0 } ?? true
            }
            .sorted { ValueOrder.text($0.id, $1.id) < 0 }
        var builder = DigestBuilder(request, total: Int64(rows.count))
        for row in rows {
            MemoryRow.key(row.id).withUnsafeBufferPointer {
                builder.take(id: $0, version: row.version)
            }
        }
        var digest = builder.finish()
        digest.clock = stored.clock
        return digest
    }

    // MARK: - Conditions

    /// Returns the rows, including tombstones, that match both conditions.
    private func rows(in view: QueryExpression?, _ filter: QueryExpression?) -> [RowImage] {
        let filter = filter.map { VersionLiterals.replace(in: $0) }
        let conditions = [view, filter].compactMap { $0.map(program) }
        return stored.rows.values.map(table.image).filter { row in
            conditions.allSatisfy { $0.holds(row, nil) }
        }
    }

    private func program(_ condition: QueryExpression) -> RowProgram {
        RowProgram(condition, isCondition: true, of: table.table)
    }
}
