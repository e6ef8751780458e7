// PullRecords: cursors, query numbers and page sizes as rows of MS_TableConfig.

import Foundation
import TidelineCore

extension QueueReader {
    /// Returns the cursor of a pull and the number of its query, if the filter and the endpoint are the same.
    ///
    /// A cursor without a number comes from a version without membership masks; the query restarts.
    func cursor(
        _ table: String,
        _ queryID: String,
        fingerprint: String,
        endpoint: String
    ) throws -> PullCursor? {
        func stored(_ part: PullCursor.Part) throws -> String? {
            try config(table, account.key(queryID), part.rawValue)
        }
        let (filter, place) = (try stored(.fingerprint), try stored(.endpoint))
        guard filter.map(ItemKey.init) == ItemKey(fingerprint),
            place.map(ItemKey.init) == ItemKey(endpoint), try hold(table, queryID) != nil
        else { return nil }
        let time = try stored(.time).map(PullCursor.Position.time)
        let link = try stored(.link).map(PullCursor.Position.link)
        return PullCursor(
            position: link ?? time ?? .start,
            epoch: try stored(.epoch),
            fingerprint: fingerprint,
            endpoint: endpoint
        )
    }

    /// Returns the query of a query id, as it is sent to the server.
    func fingerprint(_ table: String, _ queryID: String) throws -> String? {
        try config(table, account.key(queryID), PullCursor.Part.fingerprint.rawValue)
    }

    /// Returns the number of a query with its former bits; nil before its first page.
    func hold(_ table: String, _ queryID: String) throws -> QueryHold? {
        let queryID = account.key(queryID)
        let number = try config(table, queryID, QueryHold.numberType).flatMap { Int($0) }
        guard let number, (1...QueryHold.shared).contains(number) else { return nil }
        let former = try config(table, queryID, QueryHold.formerType).flatMap { Int64($0) }
        return QueryHold(number: number, formerBits: former)
    }

    /// Returns whether there may be rows that no query contains.
    func hasRowsWithoutQuery(_ table: String) throws -> Bool {
        try config(table, "", QueryHold.rowsWithoutQueryType) != nil
    }

    /// Returns whether all queries of a table with a cursor have been read completely since rows have
    /// membership masks.
    func knowsAllHolders(of table: String) throws -> Bool {
        let query = TableQuery(filter: .equal("table", .string(table)))
        var (fingerprints, numbers) = (Set<String>(), Set<String>())
        for row in try store.rows(query, in: SystemTables.config) {
            guard let key = row["key"]?.text, case .integer(let type) = row["keyType"] else {
                continue
            }
            if type == PullCursor.Part.fingerprint.rawValue { fingerprints.insert(key) }
            if type == QueryHold.numberType { numbers.insert(key) }
        }
        return fingerprints.isSubset(of: numbers)
    }

    /// Returns when the last pull of a table ended.
    func lastPull(_ table: String) throws -> Date? {
        try config(table, "", PullCursor.lastPullType).flatMap { Timestamp($0)?.date }
    }

    /// Returns the page size that suits a slow network connection; nil if the connection is not known to be
    /// slow.
    func pageRows(_ table: String, endpoint: String) throws -> Int? {
        try config(table, endpoint, PullCursor.pageRowsType).flatMap { Int($0) }
    }

    /// Returns the rows of the configuration for tables whose names differ from the app's in letter case, by
    /// the app's names, except for names that already have rows.
    func renamedRecords() throws -> [String: [Row]] {
        let stored = Dictionary(grouping: try store.rows(TableQuery(), in: SystemTables.config)) {
            $0["table"]?.text ?? ""
        }
        var renamed: [String: [Row]] = [:]
        for (table, rows) in stored where !table.isEmpty {
            guard let name = catalog.schema(table)?.name, stored[name] == nil else { continue }
            renamed[name, default: []] += rows
        }
        return renamed
    }

    func config(_ table: String, _ key: String, _ keyType: Int) throws -> String? {
        let id = Value.string(QueueReader.configID(table, key, keyType))
        return try store.row(id: id, in: SystemTables.config)?["value"]?.text
    }

    static func configID(_ table: String, _ key: String, _ keyType: Int) -> String {
        "\(table)|\(key)|\(keyType)"
    }
}

extension QueueTransaction {
    /// Removes a row that was removed from every query while its operation was pending.
    func removeRowWithoutQuery(_ id: String, _ table: String) throws {
        guard let row = try unmasked.inner.row(id: .string(id), in: table),
            MembershipMask.bits(row) == 0
        else { return }
        try store.delete(ids: [.string(id)], in: table)
    }

    /// Stores the parts of a cursor that differ from the stored ones.
    ///
    /// - Returns: Whether any part was written.
    @discardableResult
    func setCursor(_ cursor: PullCursor, _ table: String, _ queryID: String) throws -> Bool {
        var isChanged = false
        let queryID = account.key(queryID)
        for (part, value) in cursor.parts where try setConfig(value, table, queryID, part.rawValue)
        {
            isChanged = true
        }
        return isChanged
    }

    /// Stores the number of a query and its former bits.
    func setHold(_ hold: QueryHold, _ table: String, _ queryID: String) throws {
        let (former, queryID) = (hold.formerBits.map { String($0) }, account.key(queryID))
        _ = try setConfig(String(hold.number), table, queryID, QueryHold.numberType)
        _ = try setConfig(former, table, queryID, QueryHold.formerType)
    }

    /// Stores when the last pull of a table ended, which is only displayed.
    func setLastPull(_ date: Date, _ table: String) throws {
        _ = try setConfig(Timestamp(date).text, table, "", PullCursor.lastPullType)
    }

    /// Stores the page size that suits the network connection; nil removes it.
    func setPageRows(_ rows: Int?, _ table: String, endpoint: String) throws {
        _ = try setConfig(rows.map { String($0) }, table, endpoint, PullCursor.pageRowsType)
    }

    /// Stores whether there may be rows that no query contains.
    func setHasRowsWithoutQuery(_ hasRowsWithoutQuery: Bool, _ table: String) throws {
        _ = try setConfig(
            hasRowsWithoutQuery ? "1" : nil,
            table,
            "",
            QueryHold.rowsWithoutQueryType
        )
    }

    /// Removes every cursor of a table.
    ///
    /// The numbers of the queries are kept until the queries have been read again.
    func resetCursors(_ table: String) throws {
        let query = TableQuery(filter: .equal("table", .string(table)))
        let types = Set(PullCursor.Part.allCases.map { Int64($0.rawValue) })
        let ids = try store.rows(query, in: SystemTables.config).compactMap { row -> Value? in
            guard case .integer(let type) = row["keyType"], types.contains(type) else { return nil }
            return row["id"]
        }
        if !ids.isEmpty { try store.delete(ids: ids, in: SystemTables.config) }
    }

    /// Renames the configuration of tables whose names differ from the app's in letter case.
    ///
    /// Cursors are kept only if the table has rows with a mask. A table without such rows is read from the
    /// beginning, because the store may have the rows under the other name.
    func takeOverRenamedRecords() throws {
        try lostRecords.takeOverRenamed()
        let positions = Set(PullCursor.Part.allCases.map { Int64($0.rawValue) })
        for (table, rows) in try reader.renamedRecords() {
            let isMember: Filter = .greater(MembershipMask.name, .integer(-1))
            let hasMembers = try unmasked.inner.count(isMember, in: table) > 0
            for row in rows {
                guard let key = row["key"]?.text, case .integer(let type) = row["keyType"],
                    let keyType = Int(exactly: type), let id = row["id"]
                else { continue }
                try store.delete(ids: [id], in: SystemTables.config)
                guard hasMembers || !positions.contains(type) else { continue }
                var renamed = row
                renamed["id"] = .string(QueueReader.configID(table, key, keyType))
                renamed["table"] = .string(table)
                try store.put([renamed], in: SystemTables.config)
            }
        }
    }

    /// Stores a value if it differs from the stored one; returns whether it did.
    func setConfig(
        _ value: String?,
        _ table: String,
        _ key: String,
        _ keyType: Int
    ) throws -> Bool {
        let id = Value.string(QueueReader.configID(table, key, keyType))
        let stored = try store.row(id: id, in: SystemTables.config)?["value"]?.text
        guard stored.map(ItemKey.init) != value.map(ItemKey.init) else { return false }
        guard let value else {
            try store.delete(ids: [id], in: SystemTables.config)
            return true
        }
        try store.put(
            [
                [
                    "id": id, "key": .string(key), "keyType": .integer(Int64(keyType)),
                    "table": .string(table), "value": .string(value),
                ]
            ],
            in: SystemTables.config
        )
        return true
    }
}
