// TableReading: the `tables` of a configuration file.

import TidelineCore
import TidelineServerCore

/// A reader of the `tables` of a configuration file.
package enum TableReading {
    /// A key of a table.
    package enum Key: String, CaseIterable {
        case columns
        case softDelete
        case pageSize
        case maxTop
        case indexes
        case permissions
        case owner
        case conflict
        case tombstoneDays
        case tombstones
        case audit
        case unique
        case compare
        case aliases
        case references
    }

    /// A key of a reference.
    package enum ReferenceKey: String, CaseIterable {
        case table
        case onDelete
    }

    /// A key of `permissions`.
    package enum PermissionKey: String, CaseIterable {
        case read
        case insert
        case update
        case delete
    }

    /// The keys of earlier versions, with the reason why they are rejected.
    private static let removedKeys = [
        "clock":
            "this key no longer exists, because every table has one table clock; remove the key"
    ]

    static func tables(_ node: ConfigurationNode) -> [TableDefinition] {
        var seen: Set<String> = []
        let problems = node.problems
        let tables = (node.object() ?? []).map { name, node in
            if let fault = TableDefinition.nameFault(name) {
                node.problems.add(node.path, "the table name is not valid: \(fault)")
            }
            if !seen.insert(name.lowercased()).inserted {
                node.problems.add(node.path, "another table has this name (letter case is ignored)")
            }
            return table(name, node)
        }
        for table in tables {
            for (column, fault) in ReferenceRules.faults(of: table, among: tables) {
                problems.add("\(node.path).\(table.name).references.\(column)", fault)
            }
        }
        return tables
    }

    private static func table(_ name: String, _ node: ConfigurationNode) -> TableDefinition {
        var table = TableDefinition(name)
        var indexes: ConfigurationNode?
        var rules: [(key: Key, node: ConfigurationNode)] = []
        for (key, node) in node.members(Key.self, removed: removedKeys) {
            switch key {
            case .columns: table.schema.columns = ColumnReading.columns(node)
            case .softDelete: table.softDelete = node.bool() ?? true
            case .pageSize: table.pageSize = node.integer(1...100_000)
            case .maxTop: table.maxTop = node.integer(1...1_000_000)
            case .indexes: indexes = node
            case .permissions: permissions(node, &table.permissions)
            case .conflict: table.conflict = node.choice(ConflictRule.self) ?? .reject
            case .tombstones: table.tombstones = node.choice(TombstoneRule.self) ?? .full
            case .audit: table.audit = node.bool() ?? false
            case .owner: table.owner = node.string()
            case .references: table.references = references(node)
            case .unique, .compare, .aliases: rules.append((key, node))
            case .tombstoneDays: table.tombstoneDays = node.integer(1...36_500)
            }
        }
        table.completeOwner()
        if let indexes { table.indexes = read(indexes, of: table.schema) }
        for (key, node) in rules { RuleReading.read(key, node, &table) }
        return table
    }

    private static func references(_ node: ConfigurationNode) -> [TableReference] {
        (node.object() ?? []).compactMap { column, node in
            var (table, rule): (String?, DeleteRule?) = (nil, .restrict)
            for (key, node) in node.members(ReferenceKey.self) {
                switch key {
                case .table: table = node.string()
                case .onDelete: rule = node.choice(DeleteRule.self)
                }
            }
            guard let table else {
                if node.isObject { node.wrong("an object with 'table'") }
                return nil
            }
            return rule.map { TableReference(column, to: table, onDelete: $0) }
        }
    }

    private static func permissions(
        _ node: ConfigurationNode,
        _ permissions: inout TablePermissions
    ) {
        for (key, node) in node.members(PermissionKey.self) {
            guard let access = node.choice(TablePermissions.Access.self) else { continue }
            switch key {
            case .read: permissions.read = access
            case .insert: permissions.insert = access
            case .update: permissions.update = access
            case .delete: permissions.delete = access
            }
        }
    }

    private static func read(_ node: ConfigurationNode, of schema: TableSchema) -> [[String]] {
        (node.array() ?? []).compactMap { node in
            guard let elements = node.array() else { return nil }
            if elements.isEmpty { node.wrong("a non-empty list of columns") }
            var columns: [String] = []
            for node in elements {
                guard let name = node.string() else { continue }
                guard let column = schema.column(named: name) else {
                    let names = schema.columns.map(\.name) + SystemColumn.definitions.map(\.name)
                    node.wrong("one of " + names.map { "'\($0)'" }.joined(separator: ", "))
                    continue
                }
                if columns.contains(column.name) {
                    node.wrong("a column that is listed only once")
                }
                columns.append(column.name)
            }
            return columns.isEmpty ? nil : columns
        }
    }
}
