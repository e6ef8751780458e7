// RuleReading: the keys `unique`, `compare` and `aliases`.

import TidelineCore
import TidelineServerCore

/// A reader of the rules of a table that name columns, and of its former names.
enum RuleReading {
    /// Reads one of the keys, after the columns of the table were read.
    static func read(
        _ key: TableReading.Key,
        _ node: ConfigurationNode,
        _ table: inout TableDefinition
    ) {
        switch key {
        case .unique: table.schema.rules.unique = unique(node, table)
        case .compare: table.schema.rules.comparisons = comparisons(node, table.schema)
        case .aliases: table.aliases = aliases(node, table.schema)
        case .columns, .softDelete, .pageSize, .maxTop, .indexes, .permissions, .owner, .conflict,
            .tombstoneDays, .tombstones, .audit, .references:
            break
        }
    }

    private static func unique(
        _ node: ConfigurationNode,
        _ table: TableDefinition
    ) -> [[String]] {
        var seen: Set<Set<String>> = []
        return (node.array() ?? []).compactMap { node in
            guard let elements = node.array() else { return nil }
            if elements.isEmpty { node.wrong("a non-empty list of columns") }
            var columns: [String] = []
            for node in elements {
                guard let column = column(node, table.schema) else { return nil }
                guard column.type != .json else {
                    node.problems.add(node.path, "a column of type json cannot be unique")
                    return nil
                }
                if columns.contains(column.name) {
                    node.wrong("a column that is listed only once")
                }
                columns.append(column.name)
            }
            if columns == [table.owner] {
                node.problems.add(
                    node.path,
                    "each owner could have only one row; add another column"
                )
            }
            if !seen.insert(Set(columns)).inserted {
                node.problems.add(node.path, "another rule has the same columns")
            }
            return columns.isEmpty ? nil : columns
        }
    }

    private static func comparisons(
        _ node: ConfigurationNode,
        _ schema: TableSchema
    ) -> [ColumnComparison] {
        (node.array() ?? []).compactMap { node in
            guard let parts = node.array() else { return nil }
            guard parts.count == 3 else {
                node.wrong(
                    "a column, an operator and a column, such as [\"start\", \"<=\", \"end\"],"
                )
                return nil
            }
            guard let left = column(parts[0], schema),
                let comparison = parts[1].choice(ColumnComparison.Operator.self),
                let right = column(parts[2], schema)
            else { return nil }
            guard left.name != right.name, left.type == right.type else {
                node.problems.add(node.path, "two columns of the same type are expected")
                return nil
            }
            guard ColumnComparison.fits(comparison, left.type) else {
                node.problems.add(
                    node.path,
                    "columns of type \(left.type.name) cannot be compared with "
                        + "'\(comparison.rawValue)'"
                )
                return nil
            }
            return ColumnComparison(left.name, comparison, right.name)
        }
    }

    private static func aliases(
        _ node: ConfigurationNode,
        _ schema: TableSchema
    ) -> [String: String] {
        var aliases: [String: String] = [:]
        var seen: Set<String> = []
        for (old, node) in node.object() ?? [] {
            if let fault = TableDefinition.columnFault(old) {
                node.problems.add(node.path, "the name is not valid: \(fault)")
            }
            if schema.column(matching: old) != nil || !seen.insert(old.lowercased()).inserted {
                node.problems.add(
                    node.path,
                    "a column or another alias has this name (letter case is ignored)"
                )
            }
            if let column = column(node, schema) { aliases[old] = column.name }
        }
        return aliases
    }

    /// Returns the declared column that a node names; reports any other name.
    private static func column(
        _ node: ConfigurationNode,
        _ schema: TableSchema
    ) -> ColumnDefinition? {
        guard let name = node.string() else { return nil }
        if let column = schema.columns.first(where: { $0.name == name }) { return column }
        let names = schema.columns.map { "'\($0.name)'" }.joined(separator: ", ")
        node.wrong(names.isEmpty ? "a column of the table" : "one of \(names)")
        return nil
    }
}
