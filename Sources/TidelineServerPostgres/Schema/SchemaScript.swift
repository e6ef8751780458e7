// SchemaScript: executes schema changes.
//
// A dry script runs them as well, in a transaction that is rolled back, because later statements need the objects of
// earlier ones. Statements that take time for each row are only recorded; no later statement needs them.

import TidelineCore
import TidelinePostgres

/// The statements of a schema change, which are executed and recorded for display.
final class SchemaScript {
    let connection: PostgresConnection
    /// Whether everything is rolled back at the end.
    let isDry: Bool
    private(set) var statements: [String] = []

    init(_ connection: PostgresConnection, isDry: Bool = false) {
        self.connection = connection
        self.isDry = isDry
    }

    /// Runs statements without parameters.
    func execute(_ sql: String) throws {
        statements.append(sql)
        try connection.execute(sql)
    }

    @discardableResult
    func run(_ sql: String, _ values: [SQLValue]) throws -> PostgresResult {
        statements.append(Self.text(sql, values))
        return try connection.run(sql, values)
    }

    /// Runs a statement that may take long on a large table; in a dry run, the faster `instead`.
    func runOnRows(_ sql: String, _ values: [SQLValue] = [], instead: String? = nil) throws {
        statements.append(Self.text(sql, values))
        guard isDry else {
            try connection.run(sql, values)
            return
        }
        if let instead { try connection.execute(instead) }
    }

    /// Records a note for display.
    func note(_ text: String) { statements.append("-- " + text) }

    /// Returns a statement with its parameters, for display.
    private static func text(_ sql: String, _ values: [SQLValue]) -> String {
        // The last parameter is replaced first, because `$10` begins with `$1`.
        values.enumerated().reversed().reduce(sql) { sql, value in
            let literal =
                switch value.element {
                case .integer(let number): String(number)
                case .text(let text): "'" + text.replacing("'", with: "''") + "'"
                case .null, .real, .blob, .program: "NULL"
                }
            return sql.replacing("$\(value.offset + 1)", with: literal)
        }
    }
}
