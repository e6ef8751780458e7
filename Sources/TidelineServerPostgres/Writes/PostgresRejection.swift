// PostgresRejection: the rejection for an error of PostgreSQL.

import TidelinePostgres
import TidelineServerCore

/// The rejection of a request because of an error of PostgreSQL.
enum PostgresRejection {
    /// Returns the error for the caller of a write to these tables.
    static func ofWrite(_ error: PostgresError, to tables: [PostgresTable] = []) -> any Error {
        if error.isConnectionLost { return ServerError.databaseAway }
        if error.isLockTimeout || error.isCanceled { return ServerError.writesWait }
        switch error.state {
        case "54000": return ServerError.indexedTooLong
        case "53100", "53200": return ServerError.notCommitted
        case "53300": return ServerError.databaseAway
        case "25006": return ServerError.notWritable
        case "42P01", "42703": return ServerError.tableChanged
        // An external trigger has raised the error.
        case "P0001", "P0004": return ServerError.constraint(.triggerConstraint, "")
        case "23502": return ServerError.constraint(.notNullConstraint, error.constraint ?? "")
        case "23503": return ServerError.constraint(.foreignKeyConstraint, error.constraint ?? "")
        case "23505": return PostgresUnique.rejection(error, in: tables)
        case "23514": return ServerError.constraint(.checkConstraint, error.constraint ?? "")
        default: break
        }
        switch error.category {
        case "22": return ServerError.valueNotKept
        case "23": return ServerError.constraint(.otherConstraint, error.constraint ?? "")
        default: return error
        }
    }

    /// Returns the error for the caller of a read that failed before its time limit.
    static func ofRead(_ error: PostgresError) -> any Error {
        if error.isConnectionLost || error.state == "53300" { return ServerError.databaseAway }
        if error.state == PostgresError.tooComplex { return ServerError.queryTooComplex }
        if error.state == "42P01" || error.state == "42703" { return ServerError.tableChanged }
        if error.isLockTimeout || error.isTransient { return ServerError.queryTooSlow }
        return error
    }
}
