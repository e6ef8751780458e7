// PostgresCare: what an operator does with a database in PostgreSQL; servers may run meanwhile.

import TidelineCore
import TidelinePostgres
package import TidelineServerCore

package struct PostgresCare: Sendable {
    let address: PostgresAddress

    /// - Throws: ``DatabaseError``, without a password.
    package init(url: String) throws {
        do {
            address = try PostgresAddress(url)
        } catch let error as PostgresError {
            throw DatabaseError(.unavailable, error.description)
        }
    }

    /// Runs `body` on a connection of its own.
    func connected<Result>(_ body: (PostgresConnection) throws -> Result) throws -> Result {
        do {
            return try body(PostgresConnection(address))
        } catch let error as PostgresError {
            throw DatabaseError(.unavailable, "\(address): \(error)")
        }
    }

    /// Gives the database a new epoch, so that clients pull anew.
    ///
    /// - Returns: The epoch.
    package func renewEpoch() throws -> String {
        try connected { connection in
            let found = try connection.run("SELECT to_regclass('tideline.state') IS NULL")
            let isMissing = found.boolean(0, 0)
            if !isMissing {
                let copies = try connection.run(
                    "SELECT count(*) FROM tideline.state WHERE \"key\" = $1",
                    [.text(CopyProgress.key)]
                )
                guard copies.integer(0, 0) == 0 else {
                    throw DatabaseError(.unavailable, "\(address): \(CopyProgress.refusal)")
                }
            }
            let renewed = try isMissing ? nil : connection.run(PostgresSchema.renewEpoch)
            guard let renewed, renewed.count > 0 else {
                throw DatabaseError(
                    .missing,
                    "\(address): there are no tables of a server in this database."
                )
            }
            return renewed.text(0, 0)
        }
    }

    /// Makes the tables as declared, whatever becomes of their values, and serves tables of others.
    ///
    /// A dry run undoes it at its end, and leaves out what costs time on many rows; for a moment it
    /// has the locks of the change.
    ///
    /// - Returns: What was done, or would be.
    package func migrate(
        _ tables: [TableDefinition],
        isComplete: Bool,
        isDry: Bool
    ) throws -> (steps: [SchemaStep], statements: [String]) {
        try connected { connection in
            let change = PostgresSchemaChange(
                connection: connection,
                now: nil,
                hasConsent: true,
                isDry: isDry
            )
            let result = try change.prepare(tables, filtered: nil, isComplete: isComplete)
            return (result.steps, change.script.statements)
        }
    }
}
