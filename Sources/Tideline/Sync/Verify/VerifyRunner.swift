// VerifyRunner: performs the actions of VerifyMachine. It compares the server's digests with the
// device's, and compares the rows of the ranges that differ.

import Foundation
import TidelineCore

/// The result of a verification, which compares the device with the server.
public struct VerifyResult: Sendable, Hashable {
    /// The number of rows on the server that are missing on the device.
    public var missing = 0
    /// The number of rows whose state on the device differs from the server's.
    public var different = 0
    /// The number of rows on the device that the server does not return for this query.
    public var surplus = 0
    /// The number of rows on the device that the server lost when it was restored.
    ///
    /// These rows do not count as different or surplus, and are never repaired.
    public var lost = 0
    /// The number of rows that were repaired.
    public var repaired = 0
    /// The number of requests that were sent.
    public var requests = 0

    /// Creates a result, for an app's tests.
    public init(
        missing: Int = 0,
        different: Int = 0,
        surplus: Int = 0,
        repaired: Int = 0,
        requests: Int = 0,
        lost: Int = 0
    ) {
        self.missing = missing
        self.different = different
        self.surplus = surplus
        self.repaired = repaired
        self.requests = requests
        self.lost = lost
    }

    /// Whether the device and the server had the same rows, before any repair.
    public var isEqual: Bool { missing == 0 && different == 0 && surplus == 0 }
}

/// A runner of the verify machine.
struct VerifyRunner {
    let engine: SyncEngine

    func verify(queryID: String?, repair: Bool, in table: String) async throws -> VerifyResult {
        try engine.catalog.checkSynced(table)
        if let queryID { try QueryID.check(queryID) }
        return try await engine.inTurn(.purge, "verification") {
            engine.events.send(.verifyStarted(table: table))
            do {
                let result = try await compare(queryID, repair: repair, table)
                engine.events.send(.verifyFinished(table: table, result))
                return result
            } catch {
                engine.events.send(.verifyFailed(table: table, code: SyncError.Code(of: error)))
                throw error
            }
        }
    }

    private func compare(
        _ queryID: String?,
        repair: Bool,
        _ table: String
    ) async throws -> VerifyResult {
        // The query may hold other rows when the verification gets its turn.
        let steps = try await VerifySteps(engine, queryID, repair: repair, table: table)
        var machine = VerifyMachine()
        var result = VerifyResult()
        result.lost = try await engine.read { try $0.lostRecords.all(in: table).count }
        var action = machine.start()
        while true {
            try Task.checkCancellation()
            switch action {
            case .ask(let range):
                let page = try await steps.digests(range)
                result.requests += 1
                let local = try await steps.local(page.ranges.map(\.range), in: range)
                action = machine.answered(page.ranges, local: local)
            case .fetch(let range):
                try await steps.compare(range, &result)
                engine.events.send(.rangeCompared(table: table, result))
                action = machine.fetched()
            case .finish(let failure):
                if failure != nil { throw SyncError.endlessDigests(table) }
                return result
            }
        }
    }
}

/// The effects of one comparison.
private struct VerifySteps: Sendable {
    let engine: SyncEngine
    let remote: RemoteService
    let table: String
    let repair: Bool
    let filter: Filter?
    /// The number and bits of the query; nil for all rows of the table.
    let hold: QueryHold?

    init(_ engine: SyncEngine, _ queryID: String?, repair: Bool, table: String) async throws {
        self.engine = engine
        self.table = table
        self.repair = repair
        remote = try engine.remote.get()
        guard let queryID else {
            (filter, hold) = (nil, nil)
            return
        }
        let pulled = try await engine.read { reader in
            (
                try reader.pullState.hold(table, queryID),
                try reader.pullState.fingerprint(table, queryID)
            )
        }
        guard let hold = pulled.0, let text = pulled.1 else {
            throw SyncError.neverPulled(queryID, table)
        }
        self.hold = hold
        filter = try Query<Row>(odata: text).table.filter
    }

    private var bit: Int64? { hold?.bit }

    func digests(_ range: IDRange) async throws -> DigestPage {
        var query = TableQuery(filter: filter)
        query.parameters["after"] = range.after
        query.parameters["upTo"] = range.upTo
        let text = try query.wireText(engine.catalog.schema(table), .datasync)
        let url = try remote.endpoint.url(digestOf: table, query: text)
        let response = try await reached {
            try await remote.once(RemoteService.Request(method: "GET", url: url), .datasync).0
        }
        guard let page = DigestPage(response), !page.ranges.isEmpty, isServers(response) else {
            throw rejection(response)
        }
        try await meet(response.headers["Tideline-Epoch"])
        return page
    }

    /// Flags the rows from before a restore if the server was restored after the last pull, so that
    /// none of them is removed.
    private func meet(_ epoch: String?) async throws {
        let endpoint = ServerDialect.datasync.cursorScope(remote.endpoint.key)
        let known = try await engine.read { [table] in
            try $0.epochs.epoch(of: table, endpoint: endpoint, otherThan: epoch)
        }
        guard let epoch, known != epoch else { return }
        try await engine.transaction { [table] in
            try $0.epochs.handle(epoch, endpoint: endpoint, of: table)
        }
    }

    func local(_ ranges: [IDRange], in range: IDRange) async throws -> [RangeDigest] {
        try await engine.read { [table, bit] reader in
            let rows = try VerifiedRows(reader, table, bit: bit, range)
            return ranges.map(rows.digest)
        }
    }

    /// Compares the rows of a range, and repairs the differences.
    ///
    /// If the server is restored in between, the rows belong to different epochs and are requested
    /// again.
    func compare(_ range: IDRange, _ result: inout VerifyResult) async throws {
        for _ in 0..<Self.tries {
            var fetched = Fetched()
            let rows = try await fetch(range, &fetched)
            let deleted = try await deletedRows(range, without: rows, &fetched)
            result.requests += fetched.requests
            guard let found = try await apply(range, rows, deleted, fetched.epochs) else {
                continue
            }
            result.missing += found.missing
            result.different += found.different
            result.surplus += found.surplus
            result.repaired += found.repaired
            result.lost += found.lost
            return
        }
        throw SyncError.endlessDigests(table)
    }

    private static let tries = 3

    /// The number of requests for a range, and the epochs of the responses.
    private struct Fetched {
        var requests = 0
        var epochs: Set<String> = []
    }

    /// Compares the rows of a range with the server's rows; returns nil if a response does not have
    /// the table's epoch.
    private func apply(
        _ range: IDRange,
        _ rows: [Row],
        _ deleted: Set<ItemKey>,
        _ epochs: Set<String>
    ) async throws -> VerifyResult? {
        let hold = hold ?? QueryHold(number: QueryHold.withoutID, formerBits: nil)
        let endpoint = ServerDialect.datasync.cursorScope(remote.endpoint.key)
        return try await engine.transaction { [table, bit, repair] queue in
            let epoch = try queue.reader.epochs.epoch(of: table, endpoint: endpoint, otherThan: nil)
            guard epochs.allSatisfy({ $0 == epoch }) else { return nil }
            let local = try VerifiedRows(queue.reader, table, bit: bit, range)
            let former = try queue.reader.epochs.formerRows(of: table)
            var here: [ItemKey: VerifiedRow] = [:]
            for row in local.rows { here[ItemKey(row.id)] = row }
            var found = VerifyResult()
            var wrong: [Row] = []
            // Equal rows without a checksum, which get one when they are stored again.
            var proven: [Row] = []
            for row in rows where !local.pending.contains(ItemKey(row.id)) {
                let known = here.removeValue(forKey: ItemKey(row.id))
                // The row may be lost in its state for another query, so `known` may be nil.
                if try isLost(row, former, queue) {
                    found.lost += 1
                    continue
                }
                guard let known else {
                    found.missing += 1
                    wrong.append(row)
                    continue
                }
                if try known.version != row.version || isOther(row, queue) {
                    found.different += 1
                    wrong.append(row)
                } else if known.isUncertain {
                    proven.append(row)
                }
            }
            // The next pull finds out whether the server has lost the rows from a former epoch.
            let left = local.rows.filter {
                here.keys.contains(ItemKey($0.id)) && !local.pending.contains(ItemKey($0.id))
                    && !$0.isOfOtherAccount
                    // Another query with the same bit may hold the row, unless the server has
                    // deleted it.
                    && (!hold.isShared || $0.isOfFormerEpoch || deleted.contains(ItemKey($0.id)))
            }
            let surplus = left.filter { !$0.isOfFormerEpoch }.map(\.id)
            found.lost += left.count - surplus.count
            found.surplus = surplus.count
            // A row without a version from the server is kept, because it may be the only copy.
            let known = Set(local.rows.filter { $0.version != nil }.map { ItemKey($0.id) })
            let leaving = surplus.filter { known.contains(ItemKey($0)) }
            guard repair, !wrong.isEmpty || !proven.isEmpty || !leaving.isEmpty else {
                return found
            }
            let page = try PageApply(queue: queue, table: table, hold: hold)
            try page.replace(wrong + proven)
            try page.remove(deleted: leaving.filter { deleted.contains(ItemKey($0)) })
            let others = try queue.unmasked.otherAccountBits(table)
            try page.release(leaving, bits: bit ?? ~(others | MembershipMask.former))
            found.repaired = wrong.count + leaving.count
            return found
        }
    }

    /// Returns whether a restored server has lost this device's state of a row.
    private func isLost(_ row: Row, _ former: FormerRows?, _ queue: QueueTransaction) throws -> Bool
    {
        guard let former,
            let stored = try queue.unmasked.inner.row(id: .string(row.id), in: table),
            (MembershipMask.bits(stored) ?? 0) & MembershipMask.former != 0
        else { return false }
        let catalog = queue.catalog
        return former.restore.hasLost(
            catalog.synced(stored, in: table),
            server: catalog.synced(row, in: table)
        )
    }

    /// Returns whether a row with the same version has other values on this device, for example
    /// because the file was damaged.
    private func isOther(_ row: Row, _ queue: QueueTransaction) throws -> Bool {
        guard let stored = try queue.store.row(id: .string(row.id), in: table) else { return true }
        let mine = queue.catalog.synced(stored, in: table)
        let theirs = queue.catalog.synced(row, in: table)
        let others: Set = [SystemColumn.deleted, MembershipMask.name]
        return Set(theirs.names + mine.names).subtracting(others).contains {
            !RowMerge.same(theirs[$0], mine[$0])
        }
    }

    /// Returns the ids of rows on the device that the server did not return for a range because it
    /// has deleted them.
    ///
    /// The server is asked only if records that stay on the device would be deleted together with
    /// these rows, or if other queries share the bit of this query.
    private func deletedRows(
        _ range: IDRange,
        without rows: [Row],
        _ fetched: inout Fetched
    ) async throws -> Set<ItemKey> {
        let hasChildren = !engine.catalog.references.localChildren(of: table).isEmpty
        guard repair && hasChildren || hold?.isShared == true else { return [] }
        let known = Set(rows.map { ItemKey($0.id) })
        let surplus = try await engine.read { [table, bit] reader in
            let local = try VerifiedRows(reader, table, bit: bit, range)
            return local.rows.filter { !$0.isOfOtherAccount }.map(\.id).filter { id in
                !known.contains(ItemKey(id)) && !local.pending.contains(ItemKey(id))
            }
        }
        var deleted: Set<ItemKey> = []
        for start in stride(from: 0, to: surplus.count, by: Self.idsAtOnce) {
            let part = surplus[start..<min(surplus.count, start + Self.idsAtOnce)]
            var query = TableQuery(filter: .isIn(SystemColumn.id, part.map(Value.string)))
            query.includesDeleted = true
            for row in try await fetch(query, &fetched) where row[SystemColumn.deleted] == true {
                deleted.insert(ItemKey(row.id))
            }
        }
        return deleted
    }

    private static let idsAtOnce = 50

    private func fetch(_ range: IDRange, _ fetched: inout Fetched) async throws -> [Row] {
        var query = TableQuery(filter: filter)
        if let bounds = range.filter { query.filter = filter.map { $0 && bounds } ?? bounds }
        return try await fetch(query, &fetched)
    }

    /// Returns all rows of a query from the server.
    private func fetch(
        _ query: TableQuery,
        _ fetched: inout Fetched
    ) async throws -> [Row] {
        var query = query
        query.order = [SortKey(column: SystemColumn.id)]
        let schema = engine.catalog.schema(table)
        var url = try remote.endpoint.url(table, query: "?" + query.wireText(schema, .datasync))
        var rows: [Row] = []
        for _ in 0..<remote.limits.pagesMax {
            let from = url
            let response = try await reached {
                let rows = remote.limits.pageRowsFirst
                return try await remote.once(.page(from, rows: rows), .datasync).0
            }
            fetched.requests += 1
            guard response.status == 200, let page = PulledPage(response, schema: schema),
                isServers(response, hasRows: page.hasServersRow)
            else { throw rejection(response) }
            // The server may have been restored after the digests were read.
            let epoch = response.headers["Tideline-Epoch"]
            try await meet(epoch)
            if let epoch { fetched.epochs.insert(epoch) }
            rows += page.rows
            guard let link = page.nextLink else { return rows }
            guard !page.rows.isEmpty else { break }
            let next = try remote.endpoint.url(following: link, table: table)
            guard next != url else { break }
            url = next
        }
        // Rows that were not read must not be treated as rows that the server lacks.
        throw SyncError.endlessDigests(table)
    }

    private func reached(
        _ call: () async throws -> TransportResponse
    ) async throws -> TransportResponse {
        do {
            return try await call()
        } catch let error as TransportError {
            throw SyncError.offline(error)
        }
    }

    private func isServers(_ response: TransportResponse, hasRows: Bool = false) -> Bool {
        AnswerProof.isServersPage(
            headers: response.headers,
            hasRows: hasRows,
            signs: remote.signs.known
        )
    }

    private func rejection(_ response: TransportResponse) -> SyncError {
        if remote.dialect == .classic, 400..<500 ~= response.status, response.status != 401 {
            return .noDigests(table, response.status)
        }
        let failure: PullMachine.Failure
        switch response.status {
        case 401 where AnswerProof.wantsSignIn(response): failure = .unauthorized
        case 200: failure = .badPage
        // A response of a server that does not support digests is not proven to come from the
        // server.
        case 404, 405, 501: failure = .rejected(status: response.status)
        case let status where AnswerProof.isServers(response): failure = .rejected(status: status)
        case let status: failure = .unproven(status: status)
        }
        return .verifyFailed(
            failure,
            table: table,
            answer: AnswerOutline(response),
            server: remote.endpoint.name
        )
    }
}

extension SyncError {
    static func neverPulled(_ queryID: String, _ table: String) -> SyncError {
        SyncError(
            .invalidQueryID,
            """
            Table '\(table)' was never pulled with query id '\(queryID)': there is nothing to \
            compare. Pull it first, or pass the query id of a pull.
            """
        )
    }

    static func noDigests(_ table: String, _ status: Int) -> SyncError {
        SyncError(
            .serverError,
            """
            The server uses the classic protocol, which has no $digest for '\(table)': verify \
            needs a Tideline server. Nothing was changed; a pull works with this server too.
            """,
            statusCode: status
        )
    }

    static func endlessDigests(_ table: String) -> SyncError {
        SyncError(
            .badResponse,
            "The comparison of '\(table)' did not finish. Check the server's digests, or pull instead."
        )
    }
}
