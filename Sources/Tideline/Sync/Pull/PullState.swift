// PullState: the cursors, query numbers and page sizes that are stored in MS_TableConfig.

import Foundation
import TidelineCore

extension QueueReader {
    /// The stored state of pulls.
    var pullState: PullState { PullState(reader: self) }
}

extension QueueTransaction {
    /// The writer of the stored state of pulls.
    var pullState: PullStateChanges { PullStateChanges(queue: self) }
}

/// A reader of the stored state of pulls.
struct PullState {
    let reader: QueueReader

    /// Returns the cursor of a pull and its query's number, if the filter and the endpoint are the
    /// same.
    ///
    /// A cursor without a number comes from a version that had no membership masks, so the query
    /// restarts.
    func cursor(
        _ table: String,
        _ queryID: String,
        fingerprint: String,
        endpoint: String
    ) throws -> PullCursor? {
        func stored(_ part: PullCursor.Part) throws -> String? {
            try reader.config(table, reader.account.key(queryID), part.rawValue)
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

    /// Returns the query of a query id, in the form in which it is sent to the server.
    func fingerprint(_ table: String, _ queryID: String) throws -> String? {
        try reader.config(table, reader.account.key(queryID), PullCursor.Part.fingerprint.rawValue)
    }

    /// Returns the number of a query and its former bits; nil before its first page.
    func hold(_ table: String, _ queryID: String) throws -> QueryHold? {
        try hold(table, key: reader.account.key(queryID))
    }

    /// Returns the number of the query with a cursor's key, which contains the account.
    func hold(_ table: String, key: String) throws -> QueryHold? {
        let number = try reader.config(table, key, QueryHold.numberType).flatMap { Int($0) }
        guard let number, (1...QueryHold.shared).contains(number) else { return nil }
        let former = try reader.config(table, key, QueryHold.formerType).flatMap { Int64($0) }
        return QueryHold(number: number, formerBits: former)
    }

    /// Returns the time at which the last pull of a table ended.
    func lastPull(_ table: String) throws -> Date? {
        try reader.config(table, "", PullCursor.lastPullType).flatMap { Timestamp($0)?.date }
    }

    /// Returns the page size that suits a slow network connection; nil if the connection is not
    /// known to be slow.
    func pageRows(_ table: String, endpoint: String) throws -> Int? {
        try reader.config(table, endpoint, PullCursor.pageRowsType).flatMap { Int($0) }
    }
}

/// A writer of the stored state of pulls.
struct PullStateChanges {
    let queue: QueueTransaction

    /// Stores the parts of a cursor that have changed.
    ///
    /// - Returns: Whether any part was written.
    @discardableResult
    func setCursor(_ cursor: PullCursor, _ table: String, _ queryID: String) throws -> Bool {
        var isChanged = false
        let queryID = queue.account.key(queryID)
        for (part, value) in cursor.parts
        where try queue.setConfig(value, table, queryID, part.rawValue) {
            isChanged = true
        }
        return isChanged
    }

    /// Stores the number of a query and its former bits.
    func setHold(_ hold: QueryHold, _ table: String, _ queryID: String) throws {
        let (former, queryID) = (hold.formerBits.map { String($0) }, queue.account.key(queryID))
        _ = try queue.setConfig(String(hold.number), table, queryID, QueryHold.numberType)
        _ = try queue.setConfig(former, table, queryID, QueryHold.formerType)
    }

    /// Stores the time at which the last pull of a table ended, which is only for display.
    func setLastPull(_ date: Date, _ table: String) throws {
        _ = try queue.setConfig(Timestamp(date).text, table, "", PullCursor.lastPullType)
    }

    /// Stores the page size that suits the network connection; nil removes it.
    func setPageRows(_ rows: Int?, _ table: String, endpoint: String) throws {
        _ = try queue.setConfig(rows.map { String($0) }, table, endpoint, PullCursor.pageRowsType)
    }

    /// Removes every cursor of a table.
    ///
    /// The numbers of the queries are kept until the queries are read again.
    func resetCursors(of table: String) throws {
        let query = TableQuery(filter: .equal("table", .string(table)))
        let types = Set(PullCursor.Part.allCases.map { Int64($0.rawValue) })
        let ids = try queue.store.rows(query, in: SystemTables.config).compactMap { row -> Value? in
            guard case .integer(let type) = row["keyType"], types.contains(type) else { return nil }
            return row["id"]
        }
        if !ids.isEmpty { try queue.store.delete(ids: ids, in: SystemTables.config) }
    }

    /// Returns the number of a query for its next pages, which is a new number if a complete read
    /// begins.
    func hold(
        _ table: String,
        _ queryID: String,
        startsOver: Bool
    ) throws -> QueryHold {
        let former = try queue.reader.pullState.hold(table, queryID)
        if let former, !startsOver { return former }
        let taken = try queue.unmasked.taken(table)
        let hold = QueryHold.reading(after: former, taken: taken)
        try setHold(hold, table, queryID)
        try queue.unmasked.setTaken(taken | hold.bit, table)
        return hold
    }

    /// Removes the cursors and numbers of an account's queries.
    func removeQueries(of account: AccountView, _ table: String) throws {
        var types = Set(PullCursor.Part.allCases.map { Int64($0.rawValue) })
        types.formUnion([Int64(QueryHold.numberType), Int64(QueryHold.formerType)])
        let query = TableQuery(filter: .equal("table", .string(table)))
        let ids = try queue.store.rows(query, in: SystemTables.config).compactMap { row -> Value? in
            guard case .integer(let type) = row["keyType"], types.contains(type),
                let key = row["key"]?.text, account.owns(key: key)
            else { return nil }
            return row["id"]
        }
        if !ids.isEmpty { try queue.store.delete(ids: ids, in: SystemTables.config) }
    }
}
