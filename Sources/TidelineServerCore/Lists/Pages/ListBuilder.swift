// ListBuilder: builds a page from the rows of a list. LeastRows: keeps the first rows in an order that the database
// lacks.

package import TidelineCore

/// A builder of a page from the rows of a list.
package struct ListBuilder {
    private let request: ListRequest
    private let table: Table
    private let keys: KeysetRenderer
    private var page: PageBytes
    private var last: RowImage?
    private var hasMore = false

    package init(_ request: ListRequest, _ table: Table, _ keys: KeysetRenderer) {
        self.request = request
        self.table = table
        self.keys = keys
        page = PageBytes(
            opening: request.opening,
            rowsMax: request.rowsMax,
            bytesMax: request.bytesMax,
            reservation: request.reservation
        )
    }

    /// Adds a row; returns false if the page is full and more rows follow.
    package mutating func add(_ image: RowImage) throws -> Bool {
        let isAdded = try page.add {
            guard let select = request.select else { return image.stored(in: table).json }
            return image.json(in: table, places: select)
        }
        if isAdded { last = image } else { hasMore = true }
        return isAdded
    }

    package func finish(
        _ count: Int64?,
        _ clock: TableClock,
        _ watch: @autoclosure () -> EvaluationWatch?
    ) -> ListPage {
        var next: [SQLValue]?
        if hasMore, let last { next = Self.keys(of: last, keys, table, watch()) }
        let mayBeLong = keys.keys.contains { key in
            let type = key.expression.type(in: table.definition.schema)
            return !key.isID && PageToken.mayBeLong(type)
        }
        return ListPage(
            bytes: page.bytes,
            rows: page.rows,
            count: count,
            next: next,
            nextVersion: hasMore && mayBeLong ? last?.version : nil,
            lastUpdatedAt: request.tie == nil ? nil : last?.updatedAt,
            clock: clock
        )
    }

    /// Returns the keys of a row for a link.
    package static func keys(
        of image: RowImage,
        _ keys: KeysetRenderer,
        _ table: Table,
        _ watch: EvaluationWatch?
    ) -> [SQLValue] {
        let all = image.allValues
        return keys.keys.map { key in
            if case .field(let name) = key.expression.kind, let place = table.place(of: name) {
                let type = ExpressionType(table.member(place).type)
                return StoredInstants.key(all[place], of: name, type)
            }
            return RowProgram(key.expression, isCondition: false, of: table).value(image, watch)
        }
    }
}

/// A collector of the first rows, in an order that the database does not support.
package struct LeastRows {
    private let keys: [(key: SortKey, program: RowProgram)]
    private let schema: TableSchema
    private let count: Int
    private var rows: [(values: [Value], image: RowImage)] = []

    package init(_ keys: KeysetRenderer, _ table: Table, count: Int) {
        self.keys = keys.keys.map {
            ($0, RowProgram($0.expression, isCondition: false, of: table))
        }
        schema = table.definition.schema
        self.count = max(count, 1)
    }

    package mutating func take(_ image: RowImage, _ watch: EvaluationWatch?) {
        let values = keys.map { key, program in
            Value(program.value(image, watch), as: key.expression.type(in: schema))
        }
        rows.append((values, image))
        if rows.count >= 2 * count + 1000 { cut() }
    }

    /// The collected rows, in order.
    package var sorted: [RowImage] {
        var copy = self
        copy.cut()
        return copy.rows.map(\.image)
    }

    private mutating func cut() {
        rows.sort { one, other in
            for (place, key) in keys.enumerated() {
                let order = ValueOrder.sort(one.values[place], other.values[place])
                if order != 0 { return key.key.isAscending == (order < 0) }
            }
            return false
        }
        if rows.count > count { rows.removeLast(rows.count - count) }
    }
}
