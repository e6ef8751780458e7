// LogScope: what the change log of a table takes of a row that may have left somebody's view, as the
// database remembers it from one start to the next.
//
// A server without the row filter, such as the plain command on the database of an app, writes past the
// log what that app's callers would have to be told. The horizon says so when the filter is there again.

import TidelineCore
import TidelineSQLite
import TidelineServerCore

enum LogScope: Equatable {
    /// Rows that are deleted for good, by their ids alone.
    case nothing
    /// Those that change their owner, too, by this column.
    case owner(String)
    /// Every change, with all columns.
    case all

    init(_ table: TableDefinition, isFiltered: Bool) {
        if isFiltered {
            self = .all
        } else {
            self = table.owner.map { .owner($0.lowercased()) } ?? .nothing
        }
    }

    /// As it is stored; nil for what no server of this version wrote.
    private init?(_ text: String) {
        if text == Self.nothing.text {
            self = .nothing
        } else if text == Self.all.text {
            self = .all
        } else {
            guard text.hasPrefix(Self.ownerPrefix) else { return nil }
            self = .owner(String(text.dropFirst(Self.ownerPrefix.count)))
        }
    }

    private static let ownerPrefix = "owner "

    private var text: String {
        switch self {
        case .nothing: "nothing"
        case .owner(let column): Self.ownerPrefix + column
        case .all: "all"
        }
    }

    /// Whether a log that took this has all that another one takes.
    private func covers(_ other: LogScope) -> Bool {
        self == .all || other == .nothing || self == other
    }

    /// From now on the log takes this: who asks for what it did not take before starts over.
    func begin(_ table: String, _ database: Database) throws {
        let statement = try database.prepare(ServerSchema.readLogScope)
        defer { statement.reset() }
        statement.bind(1, text: table.lowercased())
        let text = try statement.step() ? statement.text(0) : Self.nothing.text
        statement.reset()
        let before = LogScope(text) ?? .nothing
        if !before.covers(self) {
            let stamp = try database.integer(ServerSchema.readStamp, [.text(table)]) ?? 0
            try database.prepare(ServerSchema.raiseHorizon).run([.text(table), .integer(stamp)])
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
