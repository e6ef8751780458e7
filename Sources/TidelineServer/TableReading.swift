// TableReading: the `tables` of a configuration file.

import TidelineCore
import TidelineServerCore

enum TableReading {
    private static let keys = ["columns", "softDelete", "pageSize", "maxTop", "indexes"]
    private static let laterKeys = ["permissions", "owner", "conflict", "tombstoneDays"]

    static func tables(_ node: ConfigurationNode) -> [TableDefinition] {
        var seen: Set<String> = []
        return (node.object() ?? []).map { name, node in
            if let fault = TableDefinition.nameFault(name) {
                node.problems.add(node.path, "the table's name cannot be used: \(fault)")
            }
            if !seen.insert(name.lowercased()).inserted {
                node.problems.add(node.path, "another table has this name but for letter case")
            }
            return table(name, node)
        }
    }

    private static func table(_ name: String, _ node: ConfigurationNode) -> TableDefinition {
        var table = TableDefinition(name)
        var indexes: ConfigurationNode?
        for (key, node) in node.object(allowed: keys + laterKeys) {
            switch key {
            case "columns": table.schema.columns = ColumnReading.columns(node)
            case "softDelete": table.softDelete = node.bool() ?? true
            case "pageSize": table.pageSize = node.integer(1...100_000)
            case "maxTop": table.maxTop = node.integer(1...1_000_000)
            case "indexes": indexes = node
            case "permissions": permissions(node)
            case "conflict":
                if node.string() != "reject" { later(node, "only 'reject'") }
            default: node.problems.add(node.path, "this is not available in this version yet")
            }
        }
        if let indexes { table.indexes = read(indexes, of: table.schema) }
        return table
    }

    private static func later(_ node: ConfigurationNode, _ allowed: String) {
        node.problems.add(node.path, "\(allowed) is available in this version")
    }

    private static func permissions(_ node: ConfigurationNode) {
        for (_, node) in node.object(allowed: ["read", "insert", "update", "delete"])
        where node.string() != "anonymous" {
            later(node, "only 'anonymous'")
        }
    }

    private static func read(_ node: ConfigurationNode, of schema: TableSchema) -> [[String]] {
        (node.array() ?? []).compactMap { node in
            let columns = (node.array() ?? []).compactMap { node -> String? in
                guard let name = node.string() else { return nil }
                guard let column = schema.column(named: name) else {
                    node.problems.add(node.path, "the table has no column of this name")
                    return nil
                }
                return column.name
            }
            return columns.isEmpty ? nil : columns
        }
    }
}
