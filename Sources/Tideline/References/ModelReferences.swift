// ModelReferences: the references between the tables of a client, in both directions.

import TidelineCore

/// The references between the tables of a client.
///
/// References with the rule `none`, and references to tables that the client does not have, are left out.
struct ModelReferences: Sendable {
    /// A reference with its tables.
    struct Edge: Hashable, Sendable {
        /// The table with the column.
        let child: String
        let column: String
        /// The table whose ids the column contains.
        let parent: String
        let rule: DeleteRule
    }

    private let byParent: [String: [Edge]]
    private let byChild: [String: [Edge]]
    /// The references of tables that stay on the device, by parent.
    private let localByParent: [String: [Edge]]

    init(_ schemas: [String: TableSchema]) {
        var edges: [Edge] = []
        for schema in schemas.values.sorted(by: { $0.name < $1.name }) {
            for reference in schema.references
            where reference.onDelete != .none && schemas[reference.table] != nil {
                edges.append(
                    Edge(
                        child: schema.name,
                        column: reference.column,
                        parent: reference.table,
                        rule: reference.onDelete
                    )
                )
            }
        }
        byParent = Dictionary(grouping: edges, by: \.parent)
        byChild = Dictionary(grouping: edges, by: \.child)
        localByParent = byParent.mapValues { edges in
            edges.filter { schemas[$0.child]?.isLocalOnly == true }
        }.filter { !$0.value.isEmpty }
    }

    var isEmpty: Bool { byChild.isEmpty }

    /// All references, by table and column.
    var all: [Edge] { byChild.sorted { $0.key < $1.key }.flatMap(\.value) }

    /// Returns the references to a table.
    func children(of table: String) -> [Edge] { byParent[table] ?? [] }

    /// Returns the references from tables that stay on the device to a table.
    func localChildren(of table: String) -> [Edge] { localByParent[table] ?? [] }

    /// Returns the references of a table.
    func parents(of table: String) -> [Edge] { byChild[table] ?? [] }

    /// Returns the parents that a row refers to, excluding the row itself.
    func parents(of row: Row, in table: String) -> [RowKey] {
        parents(of: table).compactMap { edge in
            guard let id = row[edge.column]?.text else { return nil }
            let parent = RowKey(edge.parent, id)
            return parent == RowKey(table, row.id) ? nil : parent
        }
    }

    /// Returns the tables with parents before their children, otherwise keeping the given order.
    ///
    /// Among tables that refer to each other in a cycle, the first table comes last.
    func parentsFirst(_ tables: [String]) -> [String] {
        let wanted = Set(tables)
        return tables.sortedByDependencies { parents(of: $0).map(\.parent) }
            .filter { wanted.contains($0) }
    }
}
