// SQLiteConfinedRead: runs an app's SQL on a store file.

import TidelineCore
import TidelineSQLite

/// A SQL statement of an app, which may read only the app's tables.
struct SQLiteConfinedRead {
    let request: SQLRequest
    /// The tables of the store; a request never contains the tables of the queue.
    let tables: [String: SQLiteTable]
    let database: Database

    func read() throws -> SQLRows {
        let names = request.tables.filter { tables[$0] != nil }
        do {
            let (result, read) = try database.readConfined(
                request.query.sql.text(for: .sqlite),
                request.query.sql.bindings,
                to: Set(names.map { $0.lowercased() }),
                stop: request.stop,
                rows
            )
            return SQLRows(
                columns: result.columns,
                rows: result.rows,
                tables: names.filter { read.contains($0.lowercased()) }
            )
        } catch let error as ConfinementError {
            throw SyncError.unsupportedQuery(describe(error))
        } catch let error as SQLiteError where error.isGeneric || error.isTooBig {
            throw SyncError.unsupportedQuery("SQLite rejects the statement: \(error.message)")
        } catch let error as SQLiteError where error.isInterrupt && request.stop?.isSet == true {
            throw SyncError.cancelledRead(CancellationError())
        }
    }

    private func rows(_ statement: Statement) throws -> (columns: [String], rows: [[Value]]) {
        let indices = 0..<statement.columnCount
        let columns = indices.map { statement.columnName($0) }
        var rows: [[Value]] = []
        while try statement.step() {
            rows.append(indices.map { SQLiteStoreSQL.value(statement, $0, .plain) })
        }
        return (columns, rows)
    }

    private func describe(_ error: ConfinementError) -> String {
        switch error {
        case .table(let name):
            """
            the SQL reads '\(name)', but it may read only the app's tables: \
            \(request.tables.sorted().joined(separator: ", ")).
            """
        case .function(let name): "the SQL calls '\(name)', which is not allowed."
        case .notARead: "the SQL is not read-only. Change rows in a transaction instead."
        case .noStatement: "the SQL has no statement."
        case .severalStatements: "the SQL has several statements. Run one at a time."
        case .placeholders:
            "the SQL has placeholders. Write each value as an interpolation, as in \\(value)."
        case .tooOld:
            "this SQLite cannot limit SQL to the app's tables. Link SQLite 3.19 or later, or use queries."
        }
    }
}
