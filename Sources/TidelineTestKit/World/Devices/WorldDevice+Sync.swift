// WorldDevice+Sync: the manual and automatic sync of a simulated device, and its user's decisions
// about rejected operations and lost rows.

import Tideline
import TidelineCore

extension WorldDevice {
    /// Pushes and pulls; ignores failures, like an app that is offline.
    func sync() async throws {
        do {
            try await client().syncContext.push()
        } catch let error as PushError where error.status == .storeFailure {
            // The phone is locked.
        } catch let error as PushError {
            if error.status == .unauthorized { noteParked("A push requires a sign-in.") }
            try await resolveErrors()
        }
        do {
            try await pull()
        } catch let error as SyncError {
            // The device is offline, so the next round pulls.
            if error.code == .unauthorized { noteParked("A pull requires a sign-in.") }
        } catch is PushError {
            // The push that the pull started failed or was rejected; the next round handles it.
        }
    }

    /// Pulls; returns the error's description, or nil if the pull succeeds.
    func pullFailure() async throws -> String? {
        do {
            _ = try await client().syncContext.push()
        } catch is PushError {
            // The push fails because of the row that the server cannot process.
        }
        do {
            try await pull()
            return nil
        } catch {
            return "\(error)"
        }
    }

    private func pull() async throws {
        let items = try client().syncTable(WorldItem.self)
        guard pullsPart else {
            try await items.pull(queryID: "world")
            return
        }
        try await items.pull(queryID: "open", where: { !$0.complete })
        try await items.pull(queryID: "high", where: { $0.rank >= Self.highRank })
    }

    fileprivate static let highRank = 60

    /// Returns whether a server row should be on this device.
    func pulls(_ row: Row) -> Bool { !queries(matching: row).isEmpty }

    /// Returns the ids of the queries that match a row.
    func queries(matching row: Row) -> Set<String> {
        guard pullsPart else { return ["world"] }
        var ids: Set<String> = []
        if row["complete"] == false { ids.insert("open") }
        if case .integer(let rank) = row["rank"], rank >= Self.highRank { ids.insert("high") }
        return ids
    }

    /// Resolves rejected operations and lost rows, some in favor of the device and some in favor of
    /// the server.
    func resolveErrors() async throws {
        if try client().currentSyncStatus == .blocked(by: .signIn) {
            noteParked("Automatic sync requires a sign-in.")
        }
        do {
            try await resolveRejections()
            try await resolveLostRows()
        } catch let error as SyncError where error.code == .storeUnavailable {
            // The phone is locked.
        }
    }

    private func resolveLostRows() async throws {
        for row in try await client().syncContext.lostRows() {
            touch([row.itemID])
            do {
                if draw({ $0.chance(60) }) {
                    story?.add(name, "sends the lost row \(row.itemID) again")
                    recorder.insists(name, on: row.item)
                    try await row.sendAgain()
                    resolved([row.itemID])
                } else {
                    story?.add(name, "discards the lost row \(row.itemID)")
                    // This is recorded first, because the row may disappear immediately.
                    resolved([row.itemID])
                    try await row.discard()
                    forget(row.itemID)
                }
            } catch let failure as SyncError where failure.code == .notFound {
                // The server has the row again, or the row was edited.
            }
        }
    }

    private func resolveRejections() async throws {
        for error in try await client().syncContext.operationErrors() {
            // A conflict that a follow-up read found has the status of the earlier, unclear
            // response.
            let wasRead = error.statusCode.map { $0 < 300 } ?? false
            let isConflict = error.serverItem != nil || error.serverCopy == .deleted || wasRead
            if let status = error.statusCode, !isConflict, !rejections.contains(status) {
                noteParked("\(error.itemID) is parked with status \(status): \(error.message)")
            }
            if let rule = error.brokenRule {
                noteParked("\(error.itemID) is parked for a rule that the device knows: \(rule)")
            }
            touch([error.itemID])
            do {
                if draw({ $0.chance(50) }), let mine = error.item {
                    story?.add(name, "retries \(error.itemID)")
                    recorder.insists(name, on: mine)
                    try await error.updateOperationAndRetry(with: mine)
                    resolved([error.itemID])
                } else {
                    story?.add(name, "discards its change of \(error.itemID)")
                    resolved([error.itemID])
                    try await error.cancelOperationAndDiscardItem()
                    forget(error.itemID)
                }
            } catch let failure as SyncError where failure.code == .notFound {
                // An edit of the row unparked the operation in the meantime.
            }
        }
    }

    /// Returns the policy for automatic sync: the queries to pull, and the interval.
    static func policy(pullsPart: Bool) throws -> SyncPolicy {
        var policy = SyncPolicy()
        policy.interval = .seconds(30)
        guard pullsPart else {
            policy.pull(WorldItem.self, queryID: "world")
            return policy
        }
        policy.pull(WorldItem.self, queryID: "open", try Query(where: { !$0.complete }))
        policy.pull(WorldItem.self, queryID: "high", try Query(where: { $0.rank >= highRank }))
        return policy
    }

    /// Purges the table and pulls all rows, because the original servers do not report rows that no
    /// longer match a query.
    func purgeAndPull() async throws {
        let items = try client().syncTable(WorldItem.self)
        try await items.purge()
        try await pull()
    }

    /// Returns the ids of the queries that have been read to the end at least once.
    func queriesRead() async throws -> Set<String> {
        let rows = try await disk.plainStore().read {
            try $0.rows(TableQuery(), in: "MS_TableConfig")
        }
        var (begun, unfinished): (Set<String>, Set<String>) = ([], [])
        for row in rows where row["table"]?.text == WorldItem.tableName {
            guard let key = row["key"]?.text, case .integer(let type) = row["keyType"] else {
                continue
            }
            // The id is followed by the account.
            let id = String(key.prefix { $0 != "@" })
            if type == QueryHold.numberType { begun.insert(id) }
            if type == QueryHold.formerType, row["value"]?.text == "0" { unfinished.insert(id) }
        }
        return begun.subtracting(unfinished)
    }

    /// Returns the ids of rows with pending operations that were not rejected and do not depend on
    /// a rejected operation.
    func unblockedRows() async throws -> [String] {
        let operations = try await client().syncContext.pendingOperations()
        return WorldQueue.unblocked(operations).map(\.itemID)
    }
}
