// PostgresRefusal: the answer to a caller when PostgreSQL rejects a statement.

import TidelinePostgres
import TidelineServerCore

enum PostgresRefusal {
    /// Of a write.
    static func ofWrite(_ error: PostgresError) -> any Error {
        if error.isConnectionLost { return ServerError.databaseAway }
        if error.isLockTimeout || error.isCanceled { return ServerError.writesWait }
        switch error.state {
        case "54000": return ServerError.indexedTooLong
        case "53100", "53200": return ServerError.notCommitted
        case "53300": return ServerError.databaseAway
        case "25006": return ServerError.notWritable
        case "42P01", "42703": return ServerError.tableChanged
        // Raised by an external trigger.
        case "P0001", "P0004": return ServerError.constraint(.triggerConstraint, "")
        case "23502": return ServerError.constraint(.notNullConstraint, error.constraint ?? "")
        case "23503": return ServerError.constraint(.foreignKeyConstraint, error.constraint ?? "")
        case "23505": return ServerError.constraint(.uniqueConstraint, error.constraint ?? "")
        case "23514": return ServerError.constraint(.checkConstraint, error.constraint ?? "")
        default: break
        }
        switch error.category {
        case "22": return ServerError.valueNotKept
        case "23": return ServerError.constraint(.otherConstraint, error.constraint ?? "")
        default: return error
        }
    }

    /// Of a read, whose time is not over.
    static func ofRead(_ error: PostgresError) -> any Error {
        if error.isConnectionLost || error.state == "53300" { return ServerError.databaseAway }
        if error.state == "54001" { return ServerError.queryTooComplex }
        if error.state == "42P01" || error.state == "42703" { return ServerError.tableChanged }
        if error.isLockTimeout || error.isTransient { return ServerError.queryTooSlow }
        return error
    }
}
