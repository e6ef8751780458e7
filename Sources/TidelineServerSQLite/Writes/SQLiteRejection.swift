// SQLiteRejection: the rejection for an error of SQLite.

import Foundation
import TidelineCore
import TidelineSQLite
import TidelineServerCore

/// The rejection of a request because of an error of SQLite.
enum SQLiteRejection {
    /// Returns the rejection of a write by a constraint, index or trigger of the operator.
    static func ofWrite(_ error: any Error, _ database: Database) -> any Error {
        guard let error = error as? SQLiteError, error.isConstraint else { return error }
        switch error.code >> 8 {
        case 1: return ServerError.constraint(.checkConstraint, checkColumns(error, database))
        case 3: return ServerError.constraint(.foreignKeyConstraint, "")
        case 5: return ServerError.constraint(.notNullConstraint, place(error))
        case 6, 8, 10: return notUnique(error)
        // The message comes from the trigger, and may contain values.
        case 7: return ServerError.constraint(.triggerConstraint, "")
        default: return ServerError.constraint(.otherConstraint, "")
        }
    }

    /// Returns the columns of a CHECK constraint, and its name if it has one.
    private static func checkColumns(_ error: SQLiteError, _ database: Database) -> String {
        let named = text(error)
        // A constraint that is not found has no name in the answer.
        guard !named.isEmpty, let tables = try? tables(of: error, database) else { return "" }
        for (columns, sql) in tables {
            guard let check = CheckConstraint.all(in: sql).first(where: { $0.isNamed(named) })
            else { continue }
            let place = columns.filter { check.words.contains($0.lowercased()) }
                .joined(separator: ", ")
            return check.name.map { "\(place) (constraint \($0))" } ?? place
        }
        return ""
    }

    /// Returns the columns and the SQL of the tables in a statement.
    private static func tables(
        of error: SQLiteError,
        _ database: Database
    ) throws -> [(columns: [String], sql: String)] {
        let statement = try database.prepare(
            "SELECT \"name\", \"sql\" FROM \"sqlite_master\" WHERE \"type\" = 'table'"
        )
        defer { statement.reset() }
        var found: [(name: String, sql: String)] = []
        while try statement.step() { found.append((statement.text(0), statement.text(1))) }
        return try found.filter { error.sql?.contains(ServerSchema.quoted($0.name)) ?? true }
            .map { name, sql in
                let columns = try database.prepare("SELECT \"name\" FROM pragma_table_info(?1)")
                defer { columns.reset() }
                columns.bind(1, text: name)
                var names: [String] = []
                while try columns.step() { names.append(columns.text(0)) }
                return (names, sql)
            }
    }

    /// Returns the rejection by a unique index; one on expressions has no columns that a caller could change.
    private static func notUnique(_ error: SQLiteError) -> ServerError {
        let columns = place(error)
        guard !text(error).hasPrefix("index '"), !columns.isEmpty else {
            return ServerError.constraint(.uniqueConstraint, columns)
        }
        return ServerError(RuleViolation.notUnique(columns.components(separatedBy: ", ")))
    }

    private static func text(_ error: SQLiteError) -> String {
        guard let start = error.message.firstRange(of: "constraint failed: ")?.upperBound else {
            return ""
        }
        return String(error.message[start...])
    }

    /// Returns the columns that SQLite reports as `table.column`.
    private static func place(_ error: SQLiteError) -> String {
        text(error).split(separator: ", ")
            .map { $0.split(separator: ".").last.map(String.init) ?? "" }
            .joined(separator: ", ")
    }
}
