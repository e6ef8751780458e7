// LogScope+SQLite: stores the scope of a change log in the file.

import TidelineCore
import TidelineSQLite
import TidelineServerCore

extension LogScope {
    /// Sets the scope of the log.
    ///
    /// If the scope widens, the horizon rises, so that callers with older delta links start over.
    func begin(_ table: String, _ database: Database) throws {
        let statement = try database.prepare(ServerSchema.readLogScope)
        defer { statement.reset() }
        statement.bind(1, text: table.lowercased())
        let text = try statement.step() ? statement.text(0) : Self.nothing.text
        statement.reset()
        let before = LogScope(text) ?? .nothing
        if !before.covers(self) {
            let timestamp = try database.integer(ServerSchema.readTimestamp, [.text(table)]) ?? 0
            try database.prepare(ServerSchema.raiseHorizon).run([.text(table), .integer(timestamp)])
        }
        try database.prepare(ServerSchema.putLogScope).run([
            .text(table.lowercased()), .text(self.text),
        ])
    }
}

extension ServerSchema {
    static let readLogScope = """
        SELECT "value" FROM "tideline_state" WHERE "key" = 'log.' || ?1
        """

    static let putLogScope = """
        INSERT INTO "tideline_state" ("key", "value") VALUES ('log.' || ?1, ?2)
        ON CONFLICT ("key") DO UPDATE SET "value" = excluded."value"
        """
}
