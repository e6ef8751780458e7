// UniqueRule: a `unique` rule of a table, with the rows that a write must not equal.
//
// The database has a unique index for each rule. A backend also looks for an equal row before it stores one, so that
// the rejection is that of one write and not of its group.

package import TidelineCore

/// A `unique` rule with the indexes of its columns.
package struct UniqueRule: Hashable, Sendable {
    /// The columns of the rule, as it was declared.
    package let columns: [String]
    /// The indexes of the columns that must not all be equal in two rows, the owner first if the table has one.
    package let places: [Int]

    /// The rejection of a row with the values of another one.
    package var rejection: ServerError { ServerError(RuleViolation.notUnique(columns)) }

    /// Returns the values that no other live row may have; nil if one of them is null.
    package func values(of image: RowImage) -> [SQLValue]? {
        let values = places.map { image.values[$0] }
        return values.contains(.null) ? nil : values
    }
}

extension WritePlan.Change {
    /// Returns the row after the change and the rules that it may break; nil if it breaks none.
    package func uniqueRules(of table: Table) -> (image: RowImage, rules: [UniqueRule])? {
        let all = table.uniqueRules
        guard !all.isEmpty else { return nil }
        switch self {
        case .nothing, .remove: return nil
        case .insert(let image): return (image, all)
        case .update(let image, _, let old):
            guard !image.isDeleted else { return nil }
            if old.isDeleted { return (image, all) }
            let rules = all.filter { rule in
                rule.places.contains { old.values[$0] != image.values[$0] }
            }
            return rules.isEmpty ? nil : (image, rules)
        }
    }
}

/// The rules and aliases of a table, compared with its columns.
package enum DefinitionRules {
    /// Returns why a rule or an alias of a table is invalid; nil if all are valid.
    ///
    /// It is for tables declared in code. Those of a configuration file are checked when the file is read, which
    /// reports each mistake with its path.
    package static func fault(of table: TableDefinition) -> String? {
        let schema = table.schema
        func isColumn(_ name: String) -> Bool { schema.columns.contains { $0.name == name } }
        for columns in schema.rules.unique
        where columns.isEmpty || Set(columns).count < columns.count
            || !columns.allSatisfy(isColumn)
        {
            return "unique: a list of different columns of the table is expected"
        }
        for rule in schema.rules.comparisons {
            let types = [rule.left, rule.right].map { name in
                schema.columns.first { $0.name == name }?.type
            }
            guard let type = types[0], types[1] == type,
                ColumnComparison.fits(rule.operator, type)
            else {
                return
                    "compare: two columns of the same type, which supports the operator, are expected"
            }
        }
        let names = Set((schema.columns + schema.systemColumns).map { $0.name.lowercased() })
        let wrong = table.aliases.first {
            names.contains($0.key.lowercased()) || !isColumn($0.value)
        }
        return wrong.map {
            "aliases.\($0.key): an unused name and a column of the table are expected"
        }
    }
}
