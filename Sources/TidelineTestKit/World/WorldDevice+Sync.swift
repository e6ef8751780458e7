// WorldDevice+Sync: how a device of a world syncs: by hand, or by itself; and what its user does about
// rejected operations.

import Tideline
import TidelineCore

extension WorldDevice {
    /// Pushes and pulls; what fails fails, as in an app without network.
    func sync() async throws {
        do {
            try await client().syncContext.push()
        } catch is PushError {
            try await settleErrors()
        }
        do {
            try await pull()
        } catch is SyncError {
            // Offline: the next round pulls.
        } catch is PushError {
            // The push inside the pull met the network or a rejection: the next round settles it.
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

    /// Whether a row of the server is to be here.
    func pulls(_ row: Row) -> Bool {
        guard pullsPart else { return true }
        if case .integer(let rank) = row["rank"], rank >= Self.highRank { return true }
        return row["complete"] == false
    }

    /// What an app does about rejected operations: sometimes mine, sometimes theirs.
    func settleErrors() async throws {
        for error in try await client().syncContext.operationErrors() {
            do {
                if draw({ $0.chance(50) }), let mine = error.item {
                    story?.tell(name, "retries \(error.itemID)")
                    insists(error.itemID)
                    try await error.updateOperationAndRetry(with: mine)
                } else {
                    story?.tell(name, "gives up \(error.itemID)")
                    try await error.cancelOperationAndDiscardItem()
                    forget(error.itemID)
                }
            } catch let failure as SyncError where failure.code == .notFound {
                // An edit of the row released the operation meanwhile.
            }
        }
    }

    /// What a device that syncs by itself pulls, and how often.
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

    /// Fetches everything anew: the original servers do not tell which rows left a query.
    func pullAnew() async throws {
        let items = try client().syncTable(WorldItem.self)
        try await items.purge()
        try await pull()
    }

    /// Operations that neither were rejected nor wait for one of the same row that was.
    func heldUp() async throws -> [String] {
        let operations = try await client().syncContext.pendingOperations()
        let parked = Set(operations.filter(\.isParked).map(\.itemID))
        return operations.map(\.itemID).filter { !parked.contains($0) }
    }
}
