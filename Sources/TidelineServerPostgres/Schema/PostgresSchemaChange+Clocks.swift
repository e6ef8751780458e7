// PostgresSchemaChange: other clocks for a table, in the place of its own or of those of its owners.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

extension PostgresSchemaChange {
    /// Whoever writes to a table is done before other clocks begin where its clocks are.
    ///
    /// Before a clock is looked at, and one table after the other in the order in which writers go to them.
    func keepWritersOut(
        _ declared: [TableDefinition],
        _ stored: [TableDefinition]
    ) throws {
        let changed = declared.filter { table in
            stored.contains {
                SchemaPlan.isSame($0.name, table.name) && !OwnerClocks.haveSameClocks($0, table)
            }
        }
        for name in changed.map(\.name).sorted(by: { $0.lowercased() < $1.lowercased() }) {
            try script.execute("LOCK TABLE \(PostgresName.quoted(name)) IN ACCESS EXCLUSIVE MODE")
        }
    }

    /// Servers that know nothing of the clocks of owners do not start where there are some.
    func putFormat(_ stored: [TableDefinition]) throws {
        let hasOwnerClocks = stored.contains { $0.clock == .owner }
        let format = hasOwnerClocks ? PostgresSchema.ownersFormat : PostgresSchema.formatVersion
        guard try value(of: "format") != String(format) else { return }
        try put(String(format), as: "format")
    }

    /// The tables that are stamped by other clocks than is declared.
    static func changesOfClocks(
        _ stored: [TableDefinition],
        _ declared: [TableDefinition]
    ) -> [SchemaStep] {
        declared.compactMap { table in
            guard let before = stored.first(where: { SchemaPlan.isSame($0.name, table.name) }),
                !OwnerClocks.haveSameClocks(before, table)
            else { return nil }
            let owner = table.clock == .owner ? table.owner : nil
            return SchemaStep(table: table.name, kind: .changeClock(owner: owner))
        }
    }

    /// Other clocks stamp the rows from now on: no link from before leads on.
    func endClocks(of table: TableDefinition) throws {
        if table.clock == .owner {
            for sql in OwnerClocks.end(table) { try script.runOnRows(sql) }
        }
        try script.run(PostgresSchema.renewEpoch, [])
    }
}
