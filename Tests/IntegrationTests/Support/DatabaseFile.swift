// DatabaseFile: reads an SQLite file with SQL while a program writes to it.

import Foundation
import Testing
import TidelineCore
import TidelineSQLite

struct DatabaseFile {
    private let database: Database

    init(_ path: String) throws { database = try Database(path: path) }

    /// The rows of a query, as strings.
    func rows(_ sql: String) throws -> [[String]] {
        let statement = try database.prepare(sql)
        defer { statement.reset() }
        var rows: [[String]] = []
        while try statement.step() {
            rows.append((0..<statement.columnCount).map { statement.text($0) })
        }
        return rows
    }

    func integer(_ sql: String) throws -> Int64? { try database.integer(sql) }

    func expectIntact(sourceLocation: SourceLocation = #_sourceLocation) throws {
        let result = try rows("PRAGMA integrity_check")
        #expect(result == [["ok"]], sourceLocation: sourceLocation)
    }
}

/// One operation in the queue of a store file.
struct QueueEntry: Hashable, Sendable {
    enum Kind: String, Sendable {
        case insert = "0"
        case update = "1"
        case delete = "2"
    }

    var kind: Kind
    var itemID: String
}

extension DatabaseFile {
    /// The queue in order.
    func queue() throws -> [QueueEntry] {
        try rows(#"SELECT "properties", "itemId" FROM "MS_TableOperations" ORDER BY "id""#)
            .map { row in
                let properties = try JSONSerialization.jsonObject(with: Data(row[0].utf8))
                let kind = ((properties as? [String: Any])?["type"] as? Int).map(String.init)
                return QueueEntry(
                    kind: try #require(kind.flatMap(QueueEntry.Kind.init)),
                    itemID: row[1]
                )
            }
    }
}
