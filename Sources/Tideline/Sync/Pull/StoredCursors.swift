// Where pulls stand, in MS_TableConfig: cursors and the time of the last pull.

import Foundation
import TidelineCore

extension QueueReader {
    /// The cursor of a pull, when it was made with the same filter at the same endpoint.
    func cursor(
        _ table: String,
        _ queryID: String,
        fingerprint: String,
        endpoint: String
    ) throws -> PullCursor? {
        func kept(_ kind: PullCursor.Part) throws -> String? {
            try config(table, queryID, kind.rawValue)
        }
        let (filter, place) = (try kept(.fingerprint), try kept(.endpoint))
        guard filter.map(ItemKey.init) == ItemKey(fingerprint),
            place.map(ItemKey.init) == ItemKey(endpoint)
        else { return nil }
        return PullCursor(
            time: try kept(.time),
            epoch: try kept(.epoch),
            fingerprint: fingerprint,
            endpoint: endpoint
        )
    }

    /// When the last pull of a table ended.
    func lastPull(_ table: String) throws -> Date? {
        try config(table, "", PullCursor.lastPullType).flatMap { Timestamp($0)?.date }
    }

    private func config(_ table: String, _ queryID: String, _ keyType: Int) throws -> String? {
        let id = Value.string(QueueReader.configID(table, queryID, keyType))
        return try store.row(id: id, in: SystemTables.config)?["value"]?.text
    }

    static func configID(_ table: String, _ queryID: String, _ keyType: Int) -> String {
        "\(table)|\(queryID)|\(keyType)"
    }
}

extension QueueTransaction {
    /// Keeps a cursor in place of the one before, which may belong to another endpoint.
    func setCursor(_ cursor: PullCursor, _ table: String, _ queryID: String) throws {
        var rows: [Row] = []
        var without: [Value] = []
        for (part, value) in cursor.parts {
            let id = Value.string(QueueReader.configID(table, queryID, part.rawValue))
            guard let value else {
                without.append(id)
                continue
            }
            rows.append([
                "id": id, "key": .string(queryID), "keyType": .integer(Int64(part.rawValue)),
                "table": .string(table), "value": .string(value),
            ])
        }
        try store.put(rows, in: SystemTables.config)
        if !without.isEmpty { try store.delete(ids: without, in: SystemTables.config) }
    }

    /// Remembers when the last pull of a table ended; for display.
    func setLastPull(_ date: Date, _ table: String) throws {
        try store.put(
            [
                [
                    "id": .string(QueueReader.configID(table, "", PullCursor.lastPullType)),
                    "key": "", "keyType": .integer(Int64(PullCursor.lastPullType)),
                    "table": .string(table), "value": .string(Timestamp(date).text),
                ]
            ],
            in: SystemTables.config
        )
    }

    /// Forgets every cursor of a table.
    func resetCursors(_ table: String) throws {
        let query = TableQuery(
            filter: .equal("table", .string(table))
                && .differs("keyType", from: .integer(Int64(PullCursor.lastPullType)))
        )
        let ids = try store.rows(query, in: SystemTables.config).compactMap { $0["id"] }
        if !ids.isEmpty { try store.delete(ids: ids, in: SystemTables.config) }
    }
}
