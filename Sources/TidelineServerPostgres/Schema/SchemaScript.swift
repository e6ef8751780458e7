// SchemaScript: the statements of a change of tables: carried out, and remembered to be shown.
//
// A dry one is also run, in a transaction that is rolled back: later statements see the objects of earlier
// ones. Statements that take time for each row are only recorded then; no later statement needs them.

import TidelineCore
import TidelinePostgres

final class SchemaScript {
    let connection: PostgresConnection
    /// Whether everything is undone at the end.
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

    /// Runs a statement that may take long on a large table; a dry script runs `instead`, which does not.
    func runOnRows(_ sql: String, _ values: [SQLValue] = [], instead: String? = nil) throws {
        statements.append(Self.text(sql, values))
        guard isDry else {
            try connection.run(sql, values)
            return
        }
        if let instead { try connection.execute(instead) }
    }

    /// Records a note that is not a statement.
    func note(_ text: String) { statements.append("-- " + text) }

    /// A statement with its parameters, to be read.
    private static func text(_ sql: String, _ values: [SQLValue]) -> String {
        // From the last on: `$1` is how `$10` begins.
        values.enumerated().reversed().reduce(sql) { sql, value in
            let literal =
                switch value.element {
                case .integer(let number): String(number)
                case .text(let text): "'" + text.replacing("'", with: "''") + "'"
                default: "NULL"
                }
            return sql.replacing("$\(value.offset + 1)", with: literal)
        }
    }
}
