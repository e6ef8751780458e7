// PullSteps+LostRows: finds lost rows among the rows that a restored server did not send.
//
// After a table has been read from the beginning, some rows may be left that only queries from the
// former epoch hold. The client requests them by their ids, including deleted rows. A row is lost
// if the server lacks it, or has only an older state.

import Foundation
import TidelineCore

extension PullSteps {
    /// Finds the lost rows after the first complete read that follows a restore.
    ///
    /// - Parameter inPages: The number of lost rows that were found on the pages of the read.
    /// - Returns: The numbers of lost rows, of rows that were removed from the device, and of
    ///   requests.
    /// - Throws: ``SyncError`` if a request fails; the next pull repeats the search.
    func findLostRows(inPages: Int) async throws -> (lost: Int, removed: Int, requests: Int) {
        let former = try await engine.read { [table] in try $0.epochs.formerRows(of: table) }
        guard former != nil || engine.lostRowPolicy != .ask else { return (inPages, 0, 0) }
        var requests = 0
        var ids = try await engine.read { [table] in try $0.epochs.idsToCheck(in: table) }
        var found = (lost: inPages, removed: 0)
        // If the database is empty, one probe is enough.
        let isProbed = ids.count > Self.idsBeforeProbe
        let isEmpty = isProbed ? try await lacksEveryRow() : false
        if isProbed { requests += 1 }
        while !ids.isEmpty {
            try Task.checkCancellation()
            let part = isEmpty ? Array(ids.prefix(Self.idsAtOnce)) : Self.part(of: ids)
            ids.removeFirst(part.count)
            let rows = isEmpty ? [] : try await rows(of: part, &requests)
            let stored = try await engine.transaction { [table] queue in
                let former = former ?? FormerRows(.reported, restore: RestorePoint(commit: nil))
                return try LostRowCheck(queue: queue, table: table, former: former)
                    .storeFindings(part, rows)
            }
            found.lost += stored.lost
            found.removed += stored.removed
        }
        try await finish(found.lost, former)
        return (found.lost, found.removed, requests)
    }

    private static let idsBeforeProbe = 64
    private static let idsAtOnce = 500
    /// The maximum number of bytes of ids in one request; all gateways accept a URL of two
    /// kilobytes.
    private static let idBytesAtOnce = 1200

    private static func part(of ids: [String]) -> [String] {
        var (part, bytes) = ([String](), 0)
        for id in ids {
            // Counts the quotes and a comma, and three bytes for each byte that is escaped.
            let size = id.utf8.reduce(10) { $0 + ($1.isUnreserved ? 1 : 3) }
            guard part.isEmpty || bytes + size <= idBytesAtOnce else { break }
            part.append(id)
            bytes += size
        }
        return part
    }

    /// Reports the lost rows to the app, and stores whether more rows remain to be checked.
    private func finish(_ found: Int, _ former: FormerRows?) async throws {
        if let former {
            let count = try await engine.transaction { [table] queue in
                let isLeft = try queue.reader.epochs.hasRowsToCheck(in: table)
                let cause = former.cause == .sent ? former.cause : .reported
                let left = FormerRows(cause, restore: former.restore)
                try queue.epochs.setFormerRows(isLeft ? left : nil, of: table)
                return try queue.reader.lostRecords.count()
            }
            if found > 0 || former.cause == .found {
                engine.events.send(.restoredServer(lost: count))
            }
        }
        guard engine.lostRowPolicy != .ask else { return }
        let rows = try await engine.lostRows.all().filter { $0.table == table }
        switch engine.lostRowPolicy {
        case .ask: break
        case .sendAgain:
            // A later edit of another device is overwritten only if the app decides so.
            let older = rows.filter { row in
                row.serverItem.map { row.item.isLater(than: $0) } ?? true
            }
            _ = try await engine.lostRows.resolve(older) { queue, record in
                try queue.lostRecords.sendAgain(record)
            }
        case .discard:
            _ = try await engine.lostRows.resolve(rows) { queue, record in
                try queue.lostRecords.discard(record)
            }
        }
    }

    /// Returns whether the server has no row of the table, not even a deleted one.
    private func lacksEveryRow() async throws -> Bool {
        var query = TableQuery()
        query.includesDeleted = true
        let page = try await page(at: try url(query), rows: 1)
        return page.rowCount == 0 && page.nextLink == nil
    }

    private func rows(of ids: [String], _ requests: inout Int) async throws -> [Row] {
        var query = TableQuery(filter: .isIn(SystemColumn.id, ids.map(Value.string)))
        query.includesDeleted = true
        var url = try url(query)
        var rows: [Row] = []
        for _ in 0..<engine.limits.pagesMax {
            let page = try await page(at: url, rows: max(ids.count, 1))
            requests += 1
            rows += page.rows
            guard let link = page.nextLink, !page.rows.isEmpty else { return rows }
            url = try remote.endpoint.url(following: link, table: table)
        }
        // Rows that were not read must not be treated as lost.
        throw error(.tooManyPages, nil)
    }

    private func url(_ query: TableQuery) throws -> URL {
        let text = try query.wireText(engine.catalog.schema(table), dialect)
        return try remote.endpoint.url(table, query: "?" + text)
    }

    private func page(at url: URL, rows: Int) async throws -> PulledPage {
        let response: TransportResponse
        do {
            (response, _) = try await remote.once(.page(url, rows: rows), dialect)
        } catch let error as TransportError {
            throw SyncError.offline(error)
        }
        guard remote.dialect == dialect else { throw OtherGeneration() }
        if response.status == 200,
            let page = PulledPage(response, schema: engine.catalog.schema(table)),
            // An empty page of a proxy must not cause rows to count as lost.
            AnswerProof.isServersPage(
                headers: response.headers,
                hasRows: page.hasServersRow,
                signs: remote.signs.known,
                hasEpoch: true
            )
        {
            return page
        }
        throw error(failure(response), PullAnswer(outline: AnswerOutline(response)))
    }

    private func failure(_ response: TransportResponse) -> PullMachine.Failure {
        let isProven =
            AnswerProof.isServers(response) || AnswerProof.wantsSignIn(response)
        switch response.status {
        case 408, 429, 500...: return .network
        case let status where !isProven: return .unproven(status: status)
        case 401: return .unauthorized
        case 200: return .badPage
        case let status: return .rejected(status: status)
        }
    }
}

extension UInt8 {
    /// Whether a URL can contain the byte without escaping (RFC 3986).
    fileprivate var isUnreserved: Bool {
        switch self {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "-"), UInt8(ascii: "."),
            UInt8(ascii: "_"), UInt8(ascii: "~"):
            true
        default: false
        }
    }
}

/// A check of the rows that no page of the restored server has returned.
struct LostRowCheck {
    let queue: QueueTransaction
    let table: String
    let former: FormerRows

    private var store: any LocalStoreWriter { queue.unmasked.inner }

    /// The result of the check of one row.
    enum Finding: Hashable {
        /// The server has changed or deleted the row since then, and no query holds it anymore.
        case left
        /// The server has the same state of the row.
        case same(Row)
        case lost(ServerState?)
        /// The row may belong to another account, so that the server hides it from this one.
        ///
        /// If several accounts used the table on this device, the row stays until a page contains
        /// it. Otherwise, it stays only if a query holds it.
        case unknown
    }

    func finding(_ local: Row, server: Row?, wasLost: Bool) throws -> Finding {
        guard let server else {
            return try mayBelongToOtherAccount(wasLost) ? .unknown : .lost(nil)
        }
        let mine = queue.catalog.synced(local, in: table)
        let theirs = queue.catalog.synced(server, in: table)
        let isLost = former.restore.hasLost(mine, server: theirs)
        if server[SystemColumn.deleted] == true {
            return isLost ? .lost(ServerState(server)) : .left
        }
        guard server.version != local.version else { return .same(server) }
        if wasLost, mine.hasValues(of: theirs) { return .same(server) }
        return wasLost || isLost ? .lost(.row(server)) : .left
    }

    /// Returns whether a row that the server does not return may belong to another account.
    private func mayBelongToOtherAccount(_ wasLost: Bool) throws -> Bool {
        guard former.cause == .sent, queue.account.id != nil, !wasLost else { return false }
        let reader = queue.reader
        return try reader.tableAccounts.isShared(table)
            || reader.tableAccounts.hasUnknownSenders(table)
    }

    /// Stores the results for rows that were requested; `rows` has the rows that the server
    /// returned.
    ///
    /// - Returns: The numbers of rows that are newly lost and of rows that were removed from the
    ///   device.
    func storeFindings(
        _ ids: [String],
        _ rows: [Row]
    ) throws -> (lost: Int, removed: Int) {
        var server: [ItemKey: Row] = [:]
        for row in rows { server[ItemKey(row.id)] = row }
        var found = (lost: 0, removed: 0)
        for id in ids {
            let known = try queue.reader.lostRecords.record(table, id)
            // If the row was changed in the meantime, the change has replaced the record.
            guard try queue.reader.operations(table, id).isEmpty,
                let local = try store.row(id: .string(id), in: table)
            else {
                try queue.lostRecords.remove(table, id)
                continue
            }
            let finding = try finding(
                local,
                server: server[ItemKey(id)],
                wasLost: known != nil
            )
            let mask = (MembershipMask.bits(local) ?? 0) & ~MembershipMask.former
            switch finding {
            case .left:
                found.removed += try store.delete(ids: [.string(id)], in: table)
                try queue.lostRecords.remove(table, id)
                if server[ItemKey(id)]?[SystemColumn.deleted] == true {
                    try LocalChildren(queue: queue).follow(deletesOf: [id], in: table)
                }
            case .same(let row):
                try queue.lostRecords.remove(table, id)
                guard mask != 0 else {
                    found.removed += try store.delete(ids: [.string(id)], in: table)
                    continue
                }
                var masked = JSONRowReader.withoutDeleted(row)
                masked[MembershipMask.name] = .integer(mask)
                try store.put([masked], in: table)
            case .unknown:
                // The row is not requested again, and stays if it may belong to another account on
                // the device.
                let isShared = try queue.reader.tableAccounts.isShared(table)
                guard isShared || mask != 0 else {
                    found.removed += try store.delete(ids: [.string(id)], in: table)
                    continue
                }
                let unclaimed = MembershipMask.former | MembershipMask.withoutID
                try store.setMask(isShared ? mask | unclaimed : mask, of: local, in: table)
            case .lost(let state):
                var record = LostRecord(
                    table: table,
                    itemID: id,
                    account: queue.account.id,
                    server: state
                )
                if let known { record.account = known.account } else { found.lost += 1 }
                try queue.lostRecords.put(record)
                try store.setMask(mask, of: local, in: table)
            }
        }
        return found
    }
}
