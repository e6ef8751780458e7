// ReferenceGraph: the references between the tables of a server, in both directions.

package import TidelineCore

/// A reference that the server checks, with its tables.
package struct ReferenceEdge: Sendable {
    /// The table with the column.
    package let child: Table
    /// The index of the column in the child's table.
    package let place: Int
    /// The table whose ids the column contains.
    package let parent: Table
    package let rule: DeleteRule

    package var column: ColumnDefinition { child.columns[place] }

    /// Returns the id of the parent of a row; nil if it has none.
    package func parentID(of image: RowImage) -> String? {
        guard image.values.indices.contains(place), case .text(let id) = image.values[place] else {
            return nil
        }
        return id
    }
}

/// The references between tables; it is immutable, and replaced when a table changes.
package final class ReferenceGraph: Sendable {
    /// The references to each table, by its name in lower case, ordered by table and column.
    private let children: [String: [ReferenceEdge]]
    /// The references of each table, by its name in lower case.
    private let parents: [String: [ReferenceEdge]]
    /// The tables from whose rows a cascade may reach rows of a table, by its name; all in lower case.
    private let ancestors: [String: Set<String>]

    /// Creates the graph of these tables; nil if none of them has a reference that the server checks.
    package init?(_ tables: [Table]) {
        var byName: [String: Table] = [:]
        for table in tables { byName[table.name.lowercased()] = table }
        var (children, parents): ([String: [ReferenceEdge]], [String: [ReferenceEdge]]) = ([:], [:])
        for table in byName.values.sorted(by: { $0.name < $1.name }) {
            for reference in table.definition.references.checked {
                guard let place = table.columns.firstIndex(where: { $0.name == reference.column }),
                    let parent = byName[reference.table.lowercased()]
                else { continue }
                let edge = ReferenceEdge(
                    child: table,
                    place: place,
                    parent: parent,
                    rule: reference.onDelete
                )
                children[parent.name.lowercased(), default: []].append(edge)
                parents[table.name.lowercased(), default: []].append(edge)
            }
        }
        guard !parents.isEmpty else { return nil }
        self.children = children
        self.parents = parents
        var ancestors: [String: Set<String>] = [:]
        for name in parents.keys {
            var (found, open) = (Set<String>(), [name])
            while let next = open.popLast() {
                for edge in parents[next] ?? [] where edge.rule == .cascade {
                    let parent = edge.parent.name.lowercased()
                    if found.insert(parent).inserted { open.append(parent) }
                }
            }
            if !found.isEmpty { ancestors[name] = found }
        }
        self.ancestors = ancestors
        cascadeParents = ancestors.values.reduce(into: Set()) { $0.formUnion($1) }.sorted()
    }

    /// The tables whose rows may be deleted with rows that refer to them by `cascade`, in lower case.
    package let cascadeParents: [String]

    /// Returns whether a cascade may reach rows of a table from rows of any of these tables, in lower case.
    package func mayCascade(from tables: Set<String>, to table: String) -> Bool {
        guard !tables.isEmpty, let ancestors = ancestors[table.lowercased()] else { return false }
        return !ancestors.isDisjoint(with: tables)
    }

    /// The tables that have references, or that references name.
    package var tables: [Table] {
        var tables: [String: Table] = [:]
        for edge in parents.values.joined() {
            tables[edge.child.name] = edge.child
            tables[edge.parent.name] = edge.parent
        }
        return tables.sorted { $0.key < $1.key }.map(\.value)
    }

    /// Returns the references to a table.
    package func children(of table: String) -> [ReferenceEdge] {
        children[table.lowercased()] ?? []
    }

    /// Returns the references of a table.
    package func parents(of table: String) -> [ReferenceEdge] { parents[table.lowercased()] ?? [] }

    /// Returns a table with references, or one that references name.
    package func table(named name: String) -> Table? {
        parents(of: name).first?.child ?? children(of: name).first?.parent
    }

    /// Returns the references through which a delete of a row of a table may change other rows, directly or not.
    package func closure(of table: String) -> [ReferenceEdge] {
        var edges: [ReferenceEdge] = []
        var seen: Set<String> = [table.lowercased()]
        var names = [table]
        while let name = names.popLast() {
            for edge in children(of: name) {
                edges.append(edge)
                if edge.rule == .cascade, seen.insert(edge.child.name.lowercased()).inserted {
                    names.append(edge.child.name)
                }
            }
        }
        return edges
    }
}

/// The references that concern a write, with its caller's visibility filters for the parents' tables.
package final class WriteReferences: Sendable {
    /// A reference of the write's table.
    package struct Parent: Sendable {
        package let edge: ReferenceEdge
        /// The visibility filter of the caller for the parents; nil for all rows.
        package let view: QueryExpression?
    }

    package let graph: ReferenceGraph
    package let parents: [Parent]
    /// The author of the changes that a delete causes, for tables with `audit`.
    package let author: WriteAuthor

    package init(_ graph: ReferenceGraph, parents: [Parent], author: WriteAuthor) {
        self.graph = graph
        self.parents = parents
        self.author = author
    }
}

extension WriteOperation {
    /// Whether the write may delete a row.
    package var mayDelete: Bool { kind == .delete || deleted == true }

    /// Returns the parents that the values of the write name, without those that a JSON Patch or a conflict
    /// handler may add.
    package var namedParents: [(table: Table, id: String)] {
        guard let references, !mayDelete else { return [] }
        return references.parents.compactMap { parent in
            guard values.indices.contains(parent.edge.place),
                case .text(let id)? = values[parent.edge.place]
            else { return nil }
            return (parent.edge.parent, id)
        }
    }
}

extension WriteBatch {
    /// The tables of the parents that the writes name, and of the rows that may refer to rows that the writes delete.
    package var relatedTables: [Table] {
        var tables: [String: Table] = [:]
        for write in groups.lazy.flatMap(\.writes) {
            guard let references = write.operation.references else { continue }
            for parent in references.parents {
                tables[parent.edge.parent.name] = parent.edge.parent
            }
            guard write.operation.mayDelete else { continue }
            for edge in references.graph.closure(of: write.table.name) {
                tables[edge.child.name] = edge.child
            }
        }
        return tables.sorted { $0.key < $1.key }.map(\.value)
    }
}

extension TableService {
    /// Rejects references that the server cannot check.
    static func checkReferences(_ tables: inout [TableDefinition]) throws {
        let all = tables
        for place in tables.indices {
            let table = tables[place]
            if let (column, fault) = ReferenceRules.faults(of: table, among: all).first {
                throw SchemaError("Table '\(table.name)', references.\(column): \(fault).")
            }
            tables[place].references = ReferenceRules.completed(table, among: all)
        }
    }

    /// Returns the references that concern a write by a user; nil if its table has none.
    func references(
        of operation: WriteOperation,
        in table: Table,
        for user: User?,
        author: @autoclosure () -> WriteAuthor,
        at now: Int64
    ) async throws -> WriteReferences? {
        guard let graph = catalog.references else { return nil }
        // A conflict handler may replace a delete with values.
        let hasValues = operation.kind != .delete || table.hooks?.conflict != nil
        let edges = hasValues ? graph.parents(of: table.name) : []
        let isParent = operation.kind != .insert && !graph.children(of: table.name).isEmpty
        guard !edges.isEmpty || isParent else { return nil }
        var parents: [WriteReferences.Parent] = []
        for edge in edges {
            let view = try await edge.parent.view(for: user, at: now)
            parents.append(WriteReferences.Parent(edge: edge, view: view))
        }
        return WriteReferences(graph, parents: parents, author: author())
    }
}

extension ServerError {
    /// The rejection of a reference to a row that does not exist, is deleted, or that the caller may not see.
    ///
    /// It is the same for the three cases, so that it reveals nothing about rows that the caller may not see.
    package static func parentNotFound(_ edge: ReferenceEdge) -> ServerError {
        rejection(
            "Member '\(edge.column.name)' names a row of table '\(edge.parent.name)' that does not exist. "
                + "Insert or restore that row first, or name another one.",
            .parentNotFound,
            Reference(column: edge.column.name, table: edge.parent.name)
        )
    }

    /// The rejection of a delete of a row that other rows refer to.
    package static func rowIsReferenced(_ edge: ReferenceEdge) -> ServerError {
        rejection(
            "Rows of table '\(edge.child.name)' refer to the row by '\(edge.column.name)'. "
                + "Delete or change them first.",
            .rowIsReferenced,
            Reference(column: edge.column.name, table: edge.child.name)
        )
    }

    /// The rejection of a delete whose cascade is too large to check whether other rows prevent it.
    ///
    /// - Parameters:
    ///   - edge: A reference with the rule `restrict`.
    ///   - countMax: The number of rows that are checked; nil if the check took too long.
    /// - Returns: The rejection, with the reference.
    static func cascadeTooLarge(_ edge: ReferenceEdge, countMax: Int?) -> ServerError {
        let reason =
            countMax.map { "more than \($0) rows (limits.restrictRows)" } ?? "too many rows"
        return rejection(
            "The row cannot be deleted at once: \(reason) would be deleted with it, and each of them may be referenced "
                + "by '\(edge.column.name)' of table '\(edge.child.name)'. Delete them in smaller parts first.",
            .rowIsReferenced,
            Reference(column: edge.column.name, table: edge.child.name)
        )
    }

    private static func rejection(
        _ message: String,
        _ code: ErrorCode,
        _ reference: Reference
    ) -> ServerError {
        var error = ServerError(409, message, code: code)
        error.reference = reference
        return error
    }

    /// The rejection of a delete for which the check of `restrict` took too long.
    package static func cascadeTooSlow(_ edge: ReferenceEdge) -> ServerError {
        cascadeTooLarge(edge, countMax: nil)
    }

    /// The reference that a write would break.
    package struct Reference: Hashable, Sendable {
        package var column: String
        package var table: String
    }
}
