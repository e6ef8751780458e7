// RowGrowth: executes a write that needs a table or columns that the database lacks (a dynamic schema).
//
// They are created in the transaction of the write, and are rolled back with it if it is rejected
// or fails.

import TidelineCore
import TidelineSQLite
import TidelineServerCore

extension SQLiteWriteTransaction {
    mutating func grow(
        for write: WriteBatch.Write,
        in table: SQLiteTable
    ) throws -> WriteOutcome {
        let operation = write.operation
        let definition = table.table.definition
        let isNew = try database.integer(ServerSchema.readTimestamp, [.text(table.name)]) == nil
        let rejection = ServerError.growth(
            of: definition,
            isNew: isNew,
            tables: isNew ? Int(clamping: try database.integer(ServerSchema.countTables) ?? 0) : 0,
            limits
        )
        if let rejection { return .rejected(rejection) }
        hasGrown = true
        do {
            return try database.savepoint {
                let grown = try SchemaChange(database: database, now: now)
                    .grow(table.table.definition, isFiltered: table.log.rules.takesUpdates)
                let clock = try KnownClock.read(table.name, database)
                table.head.clock.raiseHorizon(to: clock.horizon)
                var outcome = try perform(operation, in: table)
                guard outcome.decision.changesRow else { throw Undone(outcome: outcome) }
                outcome.grown = grown
                return outcome
            }
        } catch let undone as Undone<WriteOutcome> {
            var outcome = undone.outcome
            // The columns by which the row was read are outdated.
            if outcome.row != nil, operation.mayRead, let stored = table.table.storedForm {
                let table = SQLiteTable(stored, head: table.head)
                outcome.row = try Self.row(operation.id, table, database)
            }
            return outcome
        } catch let error as SchemaError {
            return .rejected(.badRequest(error.description))
        }
    }
}
