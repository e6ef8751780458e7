// TableReading: the `tables` of a configuration file.

import TidelineCore
import TidelineServerCore

enum TableReading {
    private static let keys = ["columns", "softDelete", "pageSize", "maxTop", "indexes"]
    private static let laterKeys = ["permissions", "owner", "conflict", "tombstoneDays"]
    private static let columnKeys = ["type", "enum", "nullable", "default"]
    private static let laterColumnKeys = ["maxLength", "min", "max", "pattern"]

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
            case "columns": table.schema.columns = columns(node)
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

    // MARK: - Columns

    private static func columns(_ node: ConfigurationNode) -> [ColumnDefinition] {
        var seen = Set(SystemColumn.names.map { $0.lowercased() })
        return (node.object() ?? []).compactMap { name, node in
            if let fault = TableDefinition.nameFault(name) {
                node.problems.add(node.path, "the column's name cannot be used: \(fault)")
            }
            if !seen.insert(name.lowercased()).inserted {
                node.problems.add(
                    node.path,
                    "a system column or another column has this name, letter case aside"
                )
            }
            return column(name, node)
        }
    }

    private static func column(_ name: String, _ node: ConfigurationNode) -> ColumnDefinition? {
        if node.isString { return type(node).map { ColumnDefinition(name, $0) } }
        var type: ColumnType?
        var isNullable = true
        var defaultNode: ConfigurationNode?
        for (key, node) in node.object(allowed: columnKeys + laterColumnKeys) {
            switch key {
            case "type": type = self.type(node)
            case "enum": type = enumeration(node)
            case "nullable": isNullable = node.bool() ?? true
            case "default": defaultNode = node
            default: node.problems.add(node.path, "this is not available in this version yet")
            }
        }
        guard let type else {
            node.wrong("an object with 'type' or 'enum'")
            return nil
        }
        var column = ColumnDefinition(name, type, nullable: isNullable)
        column.defaultValue = defaultNode?.value(of: column)
        return column
    }

    private static func type(_ node: ConfigurationNode) -> ColumnType? {
        if node.isString, let text = node.string(),
            let type = ColumnType.simple.first(where: { $0.name == text })
        {
            return type
        }
        node.wrong(
            "one of " + ColumnType.simple.map { "'\($0.name)'" }.joined(separator: ", ")
        )
        return nil
    }

    private static func enumeration(_ node: ConfigurationNode) -> ColumnType? {
        guard let elements = node.array() else { return nil }
        let members = elements.compactMap { $0.string() }
        guard !members.isEmpty, Set(members).count == members.count else {
            node.wrong("a list of different texts, one at least,")
            return nil
        }
        return .enumeration(members)
    }
}
