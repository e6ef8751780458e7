// KnownChildren: children of rows.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

/// A parent, with the reference by which rows refer to it.
struct ChildKey: Hashable, Sendable {
    /// The clock of the children's table.
    let table: String
    /// The index of the column.
    let place: Int
    let parent: String

    init(_ edge: ReferenceEdge, _ parent: String) {
        self.init(table: edge.child.name.lowercased(), place: edge.place, parent: parent)
    }

    init(table: String, place: Int, parent: String) {
        self.table = table
        self.place = place
        self.parent = parent
    }
}

/// The referring rows that a transaction has read or planned so far.
struct KnownChildren {
    /// The ids of the rows that were read and locked.
    private var read: [ChildKey: Set<String>] = [:]
    /// The ids of the rows that the transaction has planned.
    private var planned: [ChildKey: Set<String>] = [:]
    /// The parents with more children than were read.
    private var incomplete: Set<ChildKey> = []

    func isRead(_ key: ChildKey) -> Bool { read[key] != nil }
    /// Whether any parent has more children than were read.
    var isIncomplete: Bool { !incomplete.isEmpty }
    func hasMore(_ key: ChildKey) -> Bool { incomplete.contains(key) }

    /// Returns the ids of rows that may refer to a parent; whether they still do is in their planned images.
    func candidates(_ key: ChildKey) -> [String] {
        (read[key] ?? []).union(planned[key] ?? []).sorted()
    }

    func plannedIDs(_ key: ChildKey) -> Set<String> { planned[key] ?? [] }

    mutating func take(
        _ rows: [ReferringRow],
        of parents: [String],
        by edge: ReferenceEdge,
        hasMore: Bool
    ) {
        for parent in parents {
            let key = ChildKey(edge, parent)
            read[key] = read[key] ?? []
            if hasMore { incomplete.insert(key) }
        }
        for row in rows { read[ChildKey(edge, row.parentID), default: []].insert(row.id) }
    }

    /// Records the references of a planned row.
    mutating func plan(_ image: RowImage, of table: PostgresTable) {
        for place in table.referenceIndexes {
            guard case .text(let parent) = image.values[place] else { continue }
            let key = ChildKey(table: table.clock, place: place, parent: parent)
            planned[key, default: []].insert(image.id)
        }
    }
}
