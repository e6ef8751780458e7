// InvariantChecker: the end of a simulation, at which all devices sync without faults and the
// guarantees are checked.

import Tideline
import TidelineCore

/// A checker that verifies the guarantees on the server and the devices of a simulation.
struct InvariantChecker {
    let plan: WorldPlan
    let devices: [WorldDevice]
    let recorder: ServerRecorder
    let server: WorldServer
    let time: VirtualTime

    /// The number of push and pull rounds after which all queues must be empty.
    private static let roundsMax = 12

    private func violation(_ guarantee: String, _ detail: String) -> WorldViolation {
        WorldViolation(seed: plan.seed, guarantee: guarantee, detail: detail)
    }

    /// Checks that every pull succeeds if the only fault is a row that the server cannot process.
    func checkPoisoned() async throws {
        guard plan.poisons else { return }
        defer { server.faults.poison(nil) }
        for _ in 0..<2 {
            for device in devices where !device.syncsItself {
                try await device.start()
                guard let failure = try await device.pullFailure() else { continue }
                throw violation(
                    "a poisoned operation delays only what depends on it",
                    "\(device.name) cannot pull while the server cannot process one row: "
                        + failure
                )
            }
        }
    }

    /// Syncs all devices until nothing is pending (guarantee 4); waits for devices with automatic
    /// sync.
    func syncAll() async throws {
        for _ in 0..<Self.roundsMax {
            for device in devices where device.syncsItself { try await device.resolveErrors() }
            for device in devices where !device.syncsItself {
                try await device.start()
                try await device.sync()
                try await checkUnblocked(device)
                try await device.resolveErrors()
            }
            try await waitForAutomaticSync()
            guard try await unresolvedCount() == 0 else { continue }
            try await fetchLast()
            // A lost row may have had an operation that its user discarded. Only the next pull
            // detects that the row is lost.
            if try await unresolvedCount() == 0 { return }
        }
        throw violation("liveness", "operations are pending after \(Self.roundsMax) rounds")
    }

    /// Returns the number of pending operations and lost rows on all devices.
    private func unresolvedCount() async throws -> Int {
        var count = 0
        for device in devices {
            let context = try device.client().syncContext
            count += try await context.pendingOperationCount
            count += try await context.lostRowCount
        }
        return count
    }

    private func fetchLast() async throws {
        for device in devices where !device.syncsItself { try await device.sync() }
        try await waitForAutomaticSync()
        guard !server.isOurs else { return }
        // The original servers do not report rows that no longer match a query, so a purge removes
        // them.
        for device in devices where device.pullsPart { try await device.purgeAndPull() }
    }

    /// Waits until every device with automatic sync has had time to sync more than once.
    private func waitForAutomaticSync() async throws {
        guard devices.contains(where: \.syncsItself) else { return }
        try await time.sleep(.seconds(150))
    }

    /// Checks guarantee 9: without faults, a push leaves only rejected operations and operations
    /// that depend on them.
    private func checkUnblocked(_ device: WorldDevice) async throws {
        if plan.restores {
            // The pull may have queued lost rows, which the next push sends.
            _ = try? await device.client().syncContext.push()
        }
        // If the server does not support batches, a push retries an operation only once after the
        // operation was combined with a later one of its row. The next push sends the rest of the
        // chain.
        var unsent = try await device.unblockedRows()
        for _ in 0..<(server.isOurs ? 0 : Self.pushesForAChain) where !unsent.isEmpty {
            _ = try? await device.client().syncContext.push()
            unsent = try await device.unblockedRows()
        }
        guard !unsent.isEmpty else { return }
        throw violation(
            "a poisoned operation delays only what depends on it",
            "\(device.name) still has operations of \(unsent) after a push"
        )
    }

    /// The maximum number of pushes that a chain of transactions may need if the server does not
    /// support batches.
    private static let pushesForAChain = 8

    /// Checks the guarantees about the rows on all devices and on the server.
    func checkGuarantees() async throws -> WorldReport {
        let client = SyncClient(endpoint: World.endpoint, transport: server.transport)
        let truth = try await client.table(WorldItem.self).read(sortedBy: [.ascending(\.id)])
        let rows = try truth.map { try Row($0) }
        for device in devices {
            try await checkConvergence(device, rows)
            try checkLoss(device)
            // Guarantee 13: no device silently loses a row because the server was restored.
            let lost = device.silentlyLost
            guard lost.isEmpty else {
                throw violation(
                    "lost rows are kept",
                    "\(device.name) had \(lost.sorted()), which the restored server lost, but "
                        + "it did not send them again or report them to its user"
                )
            }
            if let parked = device.wronglyParked {
                throw violation("only the server rejects", "\(device.name): \(parked)")
            }
        }
        if let writtenBack = recorder.writtenBack {
            throw violation("no acknowledged write is lost", writtenBack)
        }
        if let doubled = recorder.doubled {
            throw violation("at most once", "a request took effect twice: \(doubled)")
        }
        if let half = recorder.transactions.half ?? recorder.torn {
            throw violation("no device sees half a transaction", half)
        }
        let (requests, groups, history) = recorder.report
        return WorldReport(
            requests: requests,
            edits: devices.map(\.edits).reduce(0, +),
            groups: groups,
            history: history
        )
    }

    /// Checks guarantees 3, 5 and 6, after every device has pulled all changes.
    private func checkConvergence(_ device: WorldDevice, _ rows: [Row]) async throws {
        let local = try await device.rows().map { row in
            try Row(try row.decode(WorldItem.self))
        }
        let wanted = rows.filter(device.pulls)
        guard local != wanted else { return }
        // A row on the device that matches none of the device's queries breaks guarantee 6. A
        // missing row that is older than the cursor and was never applied breaks guarantee 5.
        let isStale = local.contains { row in !wanted.contains { $0.id == row.id } }
        let isMissing = wanted.contains { row in !local.contains { $0.id == row.id } }
        throw violation(
            isStale ? "nothing stale" : isMissing ? "no gap" : "convergence",
            "\(device.name) has \(local.map(Self.text)), its queries have \(wanted.map(Self.text))"
        )
    }

    /// Checks guarantees 1 and 7: the last value that each user wrote to a row reached the server.
    ///
    /// Values are exempt if the policy or the app resolved their conflict with the server's row.
    private func checkLoss(_ device: WorldDevice) throws {
        guard device.policy != .serverWins else { return }
        func lost(_ what: String, _ id: String) -> WorldViolation {
            violation(
                device.inFlight.contains(id)
                    ? "in-flight edits survive" : "no acknowledged write is lost",
                "\(device.name) \(what) \(id), which never reached the server"
            )
        }
        for (id, edit) in device.lastEdits {
            switch edit {
            case .text(let text) where !recorder.had(text, id):
                throw lost("wrote '\(text)' to", id)
            case .deleted
            where !recorder.wasDeleted(id, by: device.name)
                && recorder.needsDelete(id, by: device.name):
                throw lost("deleted", id)
            case .text, .deleted: break
            }
        }
        for (id, rank) in device.lastRanks where !recorder.had(rank, id) {
            throw lost("set rank \(rank) of", id)
        }
    }

    private static func text(_ row: Row) -> String {
        "\(row.id)=\(row["text"]?.text ?? "")/\(row["rank"] ?? .null)"
    }
}
