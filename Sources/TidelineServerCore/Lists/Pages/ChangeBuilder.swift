// ChangeBuilder: builds a page from the changes of a table.

import TidelineCore

/// A builder of a page of changes, in which each removed row appears once.
package struct ChangeBuilder {
    private let request: ChangeRequest
    private let table: Table
    private var page: PageBytes
    /// The removed rows on the page, because a row may have left the visibility filter more than once.
    private var reported: Set<String> = []
    /// The time of the last change that was added.
    package private(set) var last: Int64?

    package init(_ request: ChangeRequest, _ table: Table) {
        self.request = request
        self.table = table
        page = PageBytes(
            opening: request.opening,
            rowsMax: request.rowsMax,
            bytesMax: request.bytesMax,
            reservation: request.reservation
        )
    }

    /// Adds a row; returns false if the page is full.
    package mutating func add(_ image: RowImage) throws -> Bool {
        let isAdded = try page.add {
            guard let select = request.select else { return image.stored(in: table).json }
            return image.json(in: table, places: select)
        }
        if isAdded { last = image.version }
        return isAdded
    }

    /// Adds a removed row; returns false if the page is full.
    package mutating func add(
        removed id: String,
        _ isDeleted: Bool,
        _ timestamp: Int64
    ) throws -> Bool {
        if reported.contains(id) {
            last = timestamp
            return true
        }
        let isAdded = try page.add {
            var writer = JSONWriter(capacity: 96)
            writer.raw("{\"@removed\":{\"reason\":\"")
            writer.raw(isDeleted ? "deleted" : "changed")
            writer.raw("\"},\"id\":")
            writer.string(id)
            writer.raw("}")
            return writer.bytes
        }
        if isAdded {
            reported.insert(id)
            last = timestamp
        }
        return isAdded
    }

    package func finish(_ next: Int64?, _ clock: TableClock) -> ChangePage {
        ChangePage(bytes: page.bytes, rows: page.rows, next: next, clock: clock)
    }
}
