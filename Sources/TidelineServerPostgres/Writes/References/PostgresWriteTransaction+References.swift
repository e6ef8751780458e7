// PostgresWriteTransaction+References: the rows that references concern, and the table of pending cascades.
//
// A row that a reference names is locked in share mode, and a row that is deleted for an update, so that servers cannot
// delete a row and insert a child of it at the same time. The children of a row that may be deleted are locked before
// the table clocks, level by level. Later reads are needed only if a group was rolled back.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

extension PostgresWriteTransaction: ReferenceTransaction {
    /// Returns the derived table, with the columns that this transaction has added.
    ///
    /// The references have the tables as they were when the request was prepared. Columns are only appended, so the
    /// indexes of the other columns are the same.
    func derived(_ table: Table) -> PostgresTable {
        state.grownTables[table.name.lowercased()] ?? tables.derived(table)
    }

    mutating func parent(_ id: String, _ table: PostgresTable) throws -> RowImage? {
        let key = RowKey(table: table.clock, id: id)
        if let known = state.rows[key] { return known.planned }
        _ = try connection.run(WriteStatements.share([id], of: table))
        try take(try connection.run(WriteStatements.read([id], of: table)), [id], table)
        return state.rows[key]?.planned
    }

    mutating func children(
        of ids: [String],
        by edge: ReferenceEdge,
        atMost countMax: Int
    ) throws -> (rows: [ReferringRow], hasMore: Bool) {
        let child = derived(edge.child)
        let unknown = ids.filter { !state.children.isRead(ChildKey(edge, $0)) }
        if !unknown.isEmpty {
            let rows = try lockChildren(of: unknown, by: edge, atMost: countMax)
            if !rows.isEmpty, state.clocks[child.clock] == nil {
                takeClocks(try connection.run(WriteStatements.lockClock(child.clock)))
            }
        }
        var rows: [ReferringRow] = []
        let hasMore = ids.contains { state.children.hasMore(ChildKey(edge, $0)) }
        for parent in ids {
            for id in state.children.candidates(ChildKey(edge, parent)) {
                guard let image = try image(id, child), !image.isDeleted,
                    edge.parentID(of: image) == parent
                else { continue }
                if rows.count == countMax { return (rows, true) }
                rows.append(ReferringRow(id: id, parentID: parent))
            }
        }
        return (rows, hasMore)
    }

    mutating func hasChildren(of ids: [String], by edge: ReferenceEdge) throws -> Bool {
        let child = derived(edge.child)
        // Planned rows are not sent yet, and hide stored ones.
        let hidden = state.touched.count { $0.table == child.clock }
        let found = try connection.run(
            ReferenceStatements.findChildren(of: ids, by: edge, atMost: hidden + 1)
        )
        for row in 0..<found.count {
            let id = found.text(row, 0)
            guard state.touched.contains(RowKey(table: child.clock, id: id)) else { return true }
            if try isChild(id, of: ids, by: edge) { return true }
        }
        for parent in ids {
            for id in state.children.plannedIDs(ChildKey(edge, parent))
            where try isChild(id, of: ids, by: edge) { return true }
        }
        return false
    }

    private mutating func isChild(
        _ id: String,
        of ids: [String],
        by edge: ReferenceEdge
    ) throws -> Bool {
        guard let image = try image(id, derived(edge.child)), !image.isDeleted,
            let parent = edge.parentID(of: image), ids.contains(parent)
        else { return false }
        return edge.child.name != edge.parent.name || parent != id
    }

    var restrictRowsMax: Int { limits.restrictRows }

    mutating func beginLargeDelete() throws {
        // The queries find only what was sent, and what a group has sent cannot be undone without a savepoint. Neither
        // can a query that took too long.
        guard isApart else { throw NeedsSavepoints() }
        try flush(inOrder: true)
        try lockNewParents()
    }

    mutating func restriction(
        on delete: LargeDelete,
        by edge: ReferenceEdge
    ) throws -> LargeDelete.Restriction {
        let found: PostgresResult
        do {
            found = try connection.run(ReferenceStatements.findRestricted(by: edge, on: delete))
        } catch let error as PostgresError where error.isCanceled {
            throw SlowRestriction(rejection: .cascadeTooSlow(edge))
        }
        guard found.count > 0 else { return .none }
        return found.integer(0, 0) == 0 ? .isTooLarge : .isReferenced
    }

    // MARK: - Locks

    /// Locks and reads the rows that refer to rows which may be deleted, level by level.
    ///
    /// - Returns: The clocks of the tables with such rows.
    mutating func lockFollowers(
        of roots: [String: Set<String>],
        in graph: ReferenceGraph,
        skipsLocked: Bool
    ) throws -> Set<String> {
        var clocks: Set<String> = []
        var left = cascadeRowsLeft
        var seen: Set<RowKey> = []
        var level = roots.mapValues { $0.sorted() }
        while !level.isEmpty {
            var next: [String: [String]] = [:]
            for (name, ids) in level.sorted(by: { $0.key < $1.key }) {
                for edge in graph.children(of: name) where edge.rule != .restrict {
                    let rows = try lockChildren(
                        of: ids,
                        by: edge,
                        atMost: left,
                        skipsLocked: skipsLocked
                    )
                    left -= rows.count
                    if state.children.isIncomplete { try lockNewParents() }
                    let clock = edge.child.name.lowercased()
                    if !rows.isEmpty { clocks.insert(clock) }
                    guard edge.rule == .cascade else { continue }
                    for row in rows where seen.insert(RowKey(table: clock, id: row.id)).inserted {
                        next[edge.child.name, default: []].append(row.id)
                    }
                }
            }
            level = next
        }
        return clocks
    }

    /// Prevents the checks of references in other transactions until the end of this one.
    ///
    /// A cascade that is continued later locks only some of the rows that it deletes. Another server could otherwise
    /// insert rows that refer to the rest of them, before it sees that the cascade is pending. Taken before the table
    /// clocks, if possible.
    private mutating func lockNewParents() throws {
        guard !state.holdsNewParents else { return }
        try connection.run(ReferenceStatements.lockNewParents)
        state.holdsNewParents = true
    }

    /// Locks and reads the rows that refer to any of these rows and are not deleted.
    mutating func lockChildren(
        of ids: [String],
        by edge: ReferenceEdge,
        atMost countMax: Int,
        skipsLocked: Bool = false
    ) throws -> [ReferringRow] {
        let child = derived(edge.child)
        let mode = skipsLocked ? "" : " FOR UPDATE"
        var locked: Set<String>?
        if skipsLocked {
            let found = try connection.run(
                ReferenceStatements.children(
                    of: ids,
                    by: edge,
                    child,
                    atMost: countMax,
                    cells: "\"id\"",
                    " FOR UPDATE SKIP LOCKED"
                )
            )
            locked = Set((0..<found.count).map { found.text($0, 0) })
        }
        let result = try connection.run(
            ReferenceStatements.children(
                of: ids,
                by: edge,
                child,
                atMost: countMax,
                cells: child.cells(),
                mode
            )
        )
        try child.checkTypes(result)
        var rows: [ReferringRow] = []
        for row in 0..<min(result.count, countMax) {
            let image = child.image(result, row)
            guard let parent = edge.parentID(of: image) else { continue }
            let key = RowKey(table: child.clock, id: image.id)
            if state.rows[key]?.stored == nil {
                state.rows[key] = WriteState.Cell(stored: image, planned: image)
            }
            if let locked, !locked.contains(image.id) { state.lockedRows.insert(key) }
            rows.append(ReferringRow(id: image.id, parentID: parent))
        }
        state.children.take(rows, of: ids, by: edge, hasMore: result.count > countMax)
        return rows
    }

    /// Returns the locks of rows that the references of a batch need and that other transactions hold.
    func missingReferences(_ batch: PostgresBatch) -> Set<ContendedLock> {
        var locks: Set<ContendedLock> = []
        guard !state.lockedRows.isEmpty else { return locks }
        for (write, table) in zip(
            batch.batch.groups.flatMap(\.writes),
            batch.tables.joined()
        ) {
            guard let references = write.operation.references else { continue }
            for (parent, id) in write.operation.namedParents {
                let key = RowKey(table: parent.name.lowercased(), id: id)
                let view = references.parents.first { $0.edge.parent.name == parent.name }?.view
                // A caller who may not see a row must not learn from a wait that it exists.
                let row = state.rows[key]?.stored
                guard let row, row.isVisible(in: view, of: parent) else { continue }
                if state.lockedRows.contains(key) { locks.insert(.row(key)) }
            }
            guard write.operation.mayDelete else { continue }
            var level = [(table.name, write.operation.id)]
            var seen: Set<RowKey> = []
            while let (name, id) = level.popLast() {
                for edge in references.graph.children(of: name) {
                    for child in state.children.candidates(ChildKey(edge, id)) {
                        let key = RowKey(table: edge.child.name.lowercased(), id: child)
                        guard seen.insert(key).inserted else { continue }
                        if state.lockedRows.contains(key) { locks.insert(.row(key)) }
                        level.append((edge.child.name, child))
                    }
                }
            }
        }
        return locks
    }

    /// Returns the rejection for a foreign key that is also a reference of one of the writes; nil for others.
    static func rejection(
        of error: PostgresError,
        _ group: [WriteBatch.Write]
    ) -> ServerError? {
        guard error.state == "23503", let columns = error.constraint, let relation = error.relation
        else { return nil }
        for write in group {
            guard let graph = write.operation.references?.graph else { continue }
            for edge in graph.parents(of: relation.table) {
                if edge.column.name == columns { return .parentNotFound(edge) }
                // The error names the key of the row that is still referenced.
                if columns == SystemColumn.id, edge.parent.name == write.table.name {
                    return .rowIsReferenced(edge)
                }
            }
        }
        return nil
    }

    // MARK: - Pending cascades

    mutating func pendingTables(in graph: ReferenceGraph) throws -> Set<String> {
        let known: Set<String>
        if let tables = state.pendingTables {
            known = tables
        } else {
            known = Self.pendingTables(
                try connection.run(ReferenceStatements.pendingTables(graph.cascadeParents))
            )
            state.pendingTables = known
        }
        let new = state.cascades + state.rehearsedCascades
        return new.isEmpty ? known : known.union(new.map { $0.table.lowercased() })
    }

    static func pendingTables(_ result: PostgresResult) -> Set<String> {
        Set((0..<result.count).map { result.text($0, 0) })
    }

    /// Locks and reads the ancestors of named rows that a pending cascade may reach, one statement for each level.
    ///
    /// Otherwise each row would need statements of its own.
    mutating func readAncestors(
        of named: [(table: PostgresTable, ids: [String])],
        in graph: ReferenceGraph
    ) throws {
        let pending = try pendingTables(in: graph)
        var level = named.filter { graph.mayCascade(from: pending, to: $0.table.name) }
        for _ in 0..<Self.levelsMax where !level.isEmpty {
            var next: [String: (table: PostgresTable, ids: Set<String>)] = [:]
            for (table, ids) in level {
                for edge in graph.parents(of: table.name) where edge.rule == .cascade {
                    guard
                        pending.contains(edge.parent.name.lowercased())
                            || graph.mayCascade(from: pending, to: edge.parent.name)
                    else { continue }
                    let parent = derived(edge.parent)
                    for id in ids {
                        let key = RowKey(table: table.clock, id: id)
                        guard let image = state.rows[key]?.planned, !image.isDeleted,
                            let parentID = edge.parentID(of: image),
                            state.rows[RowKey(table: parent.clock, id: parentID)] == nil
                        else { continue }
                        next[parent.clock, default: (parent, [])].ids.insert(parentID)
                    }
                }
            }
            level = next.sorted { $0.key < $1.key }.map { ($0.value.table, $0.value.ids.sorted()) }
            guard !level.isEmpty else { return }
            let results = try connection.pipeline(
                level.map { WriteStatements.share($0.ids, of: $0.table) }
                    + level.map { WriteStatements.read($0.ids, of: $0.table) }
            )
            for (place, part) in level.enumerated() {
                try take(results[level.count + place], part.ids, part.table)
            }
        }
    }

    /// The number of levels above a named row that are read together; rows above them are read one by one.
    private static var levelsMax: Int { 16 }

    mutating func put(_ pending: PendingCascade) {
        guard !isDryRun else { return state.rehearsedCascades.append(pending) }
        state.cascades.append(pending)
        hasNewCascades = true
    }

    func isPending(_ id: String, in table: Table) throws -> Bool {
        let name = table.name.lowercased()
        let own = state.cascades + state.rehearsedCascades
        if own.contains(where: { $0.table.lowercased() == name && $0.id == id }) { return true }
        return try connection.run(
            "SELECT 1 FROM tideline.cascades WHERE \"table\" = $1 AND \"id\" = $2",
            [.text(name), .text(id)]
        ).count > 0
    }

    func pendingCascades(_ step: CascadeStep) -> [PendingCascade] { entries }

    mutating func remove(_ pending: [PendingCascade]) {
        state.endedCascades += pending.map(\.place)
    }

    /// Begins a transaction that continues pending cascades: locks and reads the rows that it needs.
    ///
    /// - Returns: Whether there are any that no other server continues.
    mutating func beginCascade(
        in graph: ReferenceGraph?,
        _ step: inout CascadeStep
    ) throws -> Bool {
        let found = try connection.pipeline([
            PostgresStatement("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"),
            WriteStatements.settings(times, lock: times.contendedLock),
            ReferenceStatements.lockCascades,
            ReferenceStatements.readCascades(step),
        ])
        entries = found[2].boolean(0, 0) ? ReferenceStatements.entries(found[3]) : []
        step.places = entries.map(\.place)
        guard !entries.isEmpty else {
            try connection.run("ROLLBACK")
            return false
        }
        guard let graph else { return true }
        let groups = Dictionary(grouping: entries, by: \.table).sorted { $0.key < $1.key }
        var needed: [String: PostgresTable] = [:]
        for (name, _) in groups {
            guard let table = graph.table(named: name) else { continue }
            needed[name] = derived(table)
            for edge in graph.children(of: name) {
                needed[edge.child.name.lowercased()] = derived(edge.child)
            }
        }
        let all = needed.sorted { $0.key < $1.key }.map(\.value)
        _ = try connection.pipeline(all.map { WriteStatements.lock($0, as: "ROW EXCLUSIVE") })
        var clocks: Set<String> = []
        var left = cascadeRowsLeft
        for (name, group) in groups {
            guard let table = needed[name] else { continue }
            let ids = group.map(\.id).sorted()
            _ = try connection.run(WriteStatements.share(ids, of: table))
            try take(try connection.run(WriteStatements.read(ids, of: table)), ids, table)
            for edge in graph.children(of: name) where left > 0 {
                let rows = try lockChildren(of: ids, by: edge, atMost: left)
                left -= rows.count
                if !rows.isEmpty { clocks.insert(edge.child.name.lowercased()) }
            }
        }
        let locks = clocks.sorted().map(WriteStatements.lockClock)
        let results = try connection.pipeline(
            locks + [WriteStatements.forms(all), PostgresStatement(PostgresClock.now).prepared]
        )
        for place in locks.indices { takeClocks(results[place]) }
        takeForms(results[locks.count])
        takeTime(results[locks.count + 1])
        for table in all {
            if let outdated = try outdated(table) { throw outdated }
        }
        return true
    }
}

/// The error of a transaction that has to be repeated with a savepoint for each group.
struct NeedsSavepoints: Error {}

/// The error of a group whose check for `restrict` took longer than a statement may take.
struct SlowRestriction: Error {
    let rejection: ServerError
}
