// RowMerge: differences between rows, and carrying local edits onto a newer server row.
//
// Pure. `id` and the system columns never count as edits.

package import TidelineCore

package enum RowMerge {
    /// The columns of `row` that differ from `base`, without the system columns.
    ///
    /// A member that only `base` has is a difference with the value null.
    package static func changes(from base: Row, to row: Row) -> Row {
        var result = Row()
        for (name, value) in row where !SystemColumn.names.contains(name) {
            if !same(base[name], value) { result[name] = value }
        }
        for name in base.names where row[name] == nil && !SystemColumn.names.contains(name) {
            if !same(base[name], nil) { result[name] = .null }
        }
        return result
    }

    /// Absent and null are the same.
    package static func same(_ one: Value?, _ two: Value?) -> Bool {
        switch (one ?? .null, two ?? .null) {
        case (.integer(let left), .number(let right)): Double(left) == right
        case (.number(let left), .integer(let right)): left == Double(right)
        case (let left, let right): left == right
        }
    }

    /// `server` with the edits that lead from `sent` to `local` on top.
    ///
    /// `sent` is the local row as it was when the operation in flight was frozen.
    package static func rebase(local: Row, from sent: Row, onto server: Row) -> Row {
        var result = server
        for (name, value) in changes(from: sent, to: local) { result[name] = value }
        return result
    }

    /// The columns without `id` and the system columns, as a request sends them.
    package static func payload(_ row: Row) -> Row {
        var result = Row()
        for (name, value) in row where !SystemColumn.names.contains(name) { result[name] = value }
        return result
    }

    /// Whether `server` holds every value that a request sent.
    package static func holds(_ server: Row, _ payload: Row) -> Bool {
        payload.allSatisfy { name, value in
            SystemColumn.names.contains(name) || same(server[name], value)
        }
    }
}
