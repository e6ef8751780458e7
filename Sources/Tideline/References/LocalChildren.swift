// LocalChildren: the records that stay on the device and refer to rows that the server has deleted.
//
// The server deletes the children of a deleted row, and the device pulls these deletes. No server knows the records of
// a local table, so the device applies their delete rules when it learns of the parent's delete.

import TidelineCore

/// The records that stay on the device and refer to rows of other tables.
struct LocalChildren {
    let queue: QueueTransaction

    /// Applies the delete rules of these records to rows that the server has deleted.
    ///
    /// A record that refers to such a row with the rule `restrict` is kept, without its parent. Nothing happens for
    /// rows that are only removed from the device, because the server may still have them.
    func follow(deletesOf ids: [String], in table: String) throws {
        guard !queue.catalog.references.localChildren(of: table).isEmpty else { return }
        var open = [(table: table, ids: ids)]
        while let (table, ids) = open.popLast() {
            for edge in queue.catalog.references.localChildren(of: table) {
                for start in stride(from: 0, to: ids.count, by: Self.parentsAtOnce) {
                    let part = ids[start..<min(ids.count, start + Self.parentsAtOnce)]
                    switch edge.rule {
                    case .cascade:
                        try eachChild(of: part, by: edge) { children in
                            let ids = children.map(\.id)
                            try queue.store.delete(ids: ids.map(Value.string), in: edge.child)
                            open.append((edge.child, ids))
                        }
                    case .setNull:
                        try eachChild(of: part, by: edge) { children in
                            let cleared = children.map { child in
                                var child = child
                                child[edge.column] = .null
                                return child
                            }
                            try queue.unmasked.settingLocalColumns {
                                try queue.store.put(cleared, in: edge.child)
                            }
                        }
                    case .restrict, .none: continue
                    }
                }
            }
        }
    }

    private static let parentsAtOnce = 500
    private static let childrenAtOnce = 500

    /// Calls `body` with batches of the records that refer to these rows; `body` removes the references.
    private func eachChild(
        of ids: ArraySlice<String>,
        by edge: ModelReferences.Edge,
        _ body: ([Row]) throws -> Void
    ) throws {
        var query = TableQuery(filter: .isIn(edge.column, ids.map(Value.string)))
        if edge.rule == .cascade { query.select = [SystemColumn.id] }
        query.order = [SortKey(column: SystemColumn.id)]
        query.limit = Self.childrenAtOnce
        while true {
            try queue.watch?.check()
            let children = try queue.store.rows(query, in: edge.child)
            guard !children.isEmpty else { return }
            try body(children)
            queue.watch?.changed(children.count, in: edge.child)
            guard children.count == Self.childrenAtOnce else { return }
        }
    }
}
