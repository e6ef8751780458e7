// WriteRound: what the statements of a transaction's beginning have found.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

extension WriteRound {
    mutating func takeClocks(_ result: PostgresResult) {
        for row in 0..<result.count {
            let key = ClockKey(table: result.text(row, 0), owner: nil)
            state.clocks[key] = WriteState.Clock(
                stamp: result.integer(row, 1),
                counted: result.integer(row, 2)
            )
        }
    }

    /// Takes the numbers of the tables' forms.
    mutating func takeForms(_ result: PostgresResult) {
        for row in 0..<result.count { state.forms[result.text(row, 0)] = result.integer(row, 1) }
    }

    mutating func takeLedger(_ result: PostgresResult, _ names: Set<LedgerKey>) {
        for name in names { state.ledger[name] = .some(nil) }
        for row in 0..<result.count {
            state.ledger[LedgerKey(result, row)] = LedgerEntry(result, row)
        }
    }

    mutating func take(_ result: PostgresResult, _ ids: [String], _ table: PostgresTable) {
        for id in ids { state.rows[RowKey(table: table.clock, id: id)] = WriteState.Cell() }
        for row in 0..<result.count {
            let image = table.image(result, row)
            let key = RowKey(table: table.clock, id: image.id)
            state.rows[key] = WriteState.Cell(stored: image, planned: image)
        }
    }
}
