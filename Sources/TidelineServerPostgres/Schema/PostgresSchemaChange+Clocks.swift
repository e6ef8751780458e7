// PostgresSchemaChange: the change between a table's own clock and the clocks of its owners.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

extension PostgresSchemaChange {
    /// Waits for the writers of these tables, and blocks new ones, before their rows or clocks are examined.
    ///
    /// Reads continue until something changes that they depend on: a column, a trigger.
    ///
    /// A dry run changes nothing that it examines, and blocks no writer meanwhile.
    func keepWritersOut(_ tables: [String]) throws {
        for sql in Self.locks(tables) { try script.runOnRows(sql) }
    }

    /// The same for a dry run that is about to change clocks: rows come before clocks for all.
    func lock(_ tables: [String]) throws {
        for sql in Self.locks(tables) { try connection.execute(sql) }
    }

    /// One table after the other in the order in which writers go to them.
    private static func locks(_ tables: [String]) -> [String] {
        Dictionary(tables.map { ($0.lowercased(), $0) }) { $1 }
            .sorted { $0.key < $1.key }
            .map { "LOCK TABLE \(PostgresName.quoted($0.value)) IN EXCLUSIVE MODE" }
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
