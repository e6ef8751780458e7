// ColumnReading: reads the key `columns`.

import TidelineCore
import TidelineServerCore

/// A reader of the `columns` of a table in a configuration file.
package enum ColumnReading {
    /// A key of a column.
    package enum Key: String, CaseIterable {
        case type
        case members = "enum"
        case nullable
        case standard = "default"
        case required
        case maxLength
        case min
        case max
        case pattern

        /// The rule that the key sets.
        fileprivate var rule: ColumnCheck.Rule? {
            switch self {
            case .required: .required
            case .maxLength: .maxLength
            case .min: .min
            case .max: .max
            case .pattern: .pattern
            case .type, .members, .nullable, .standard: nil
            }
        }
    }

    static func columns(_ node: ConfigurationNode) -> [ColumnDefinition] {
        var seen = Set(SystemColumn.names.map { $0.lowercased() })
        return (node.object() ?? []).compactMap { name, node in
            if let fault = TableDefinition.columnFault(name) {
                node.problems.add(node.path, "the column name is not valid: \(fault)")
            }
            if !seen.insert(name.lowercased()).inserted {
                node.problems.add(
                    node.path,
                    "a system column or another column has this name (letter case is ignored)"
                )
            }
            return column(name, node)
        }
    }

    private static func column(_ name: String, _ node: ConfigurationNode) -> ColumnDefinition? {
        if node.isString { return type(node).map { ColumnDefinition(name, $0) } }
        var type: ColumnType?
        var hasType = false
        var isNullable = true
        var nodes: [Key: ConfigurationNode] = [:]
        for (key, node) in node.members(Key.self) {
            switch key {
            case .type, .members:
                type = key == .type ? self.type(node) : enumeration(node)
                hasType = true
            case .nullable: isNullable = node.bool() ?? true
            case .standard, .required, .maxLength, .min, .max, .pattern: nodes[key] = node
            }
        }
        guard let type else {
            if !hasType { node.wrong("an object with 'type' or 'enum'") }
            return nil
        }
        var column = ColumnDefinition(name, type, nullable: isNullable)
        column.rules = rules(nodes, column)
        column.defaultValue = nodes[.standard].flatMap { defaultValue($0, column) }
        return column
    }

    /// Reads the default, which has to conform to the column's own rules.
    private static func defaultValue(
        _ node: ConfigurationNode,
        _ column: ColumnDefinition
    ) -> Value? {
        guard let value = node.value(of: column) else { return nil }
        let violation = ColumnCheck(column)?.check(
            SQLValue(value, type: column.type),
            of: column
        )
        if let violation { node.reject(violation, of: column) }
        return value
    }

    private static func rules(
        _ nodes: [Key: ConfigurationNode],
        _ column: ColumnDefinition
    ) -> ColumnRules {
        var rules = ColumnRules()
        for (key, node) in nodes.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            guard let rule = key.rule else { continue }
            guard rule.fits(column.type) else {
                node.problems.add(
                    node.path,
                    "a column of type \(column.type.name) cannot have '\(key.rawValue)'"
                )
                continue
            }
            switch rule {
            case .required: rules.isRequired = node.bool() ?? false
            case .maxLength: rules.maxLength = node.integer(0...1_000_000_000)
            case .min: rules.min = bound(node, column)
            case .max: rules.max = bound(node, column)
            case .pattern: rules.pattern = pattern(node)
            }
        }
        if let min = rules.min, let max = rules.max, let low = nodes[.min], let high = nodes[.max] {
            let bounds = [min, max].map { SQLValue($0, type: column.type) }
            if ColumnCheck.isLess(bounds[1], bounds[0], column.type) {
                high.wrong("at least \(low.shown), which is 'min',")
            }
        }
        return rules
    }

    private static func bound(_ node: ConfigurationNode, _ column: ColumnDefinition) -> Value? {
        var bare = column
        bare.isNullable = false
        return node.value(of: bare)
    }

    private static func pattern(_ node: ConfigurationNode) -> String? {
        guard let text = node.string() else { return nil }
        do {
            _ = try TextPattern(text)
        } catch {
            node.problems.add(
                node.path,
                "the pattern is not valid: \(error.message), at character \(error.position)"
            )
        }
        return text
    }

    private static func type(_ node: ConfigurationNode) -> ColumnType? {
        if node.isObject, let (_, members) = node.object(allowed: ["enum"]).first {
            return enumeration(members)
        }
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
            node.wrong("a non-empty list of different strings")
            return nil
        }
        return .enumeration(members)
    }
}
