// WorldJudge: the end of a world: everybody syncs without faults, and the guarantees are checked.

import Tideline
import TidelineCore

struct WorldJudge {
    let plan: WorldPlan
    let devices: [WorldDevice]
    let recorder: ServerRecorder
    let server: InProcessServer

    /// How many rounds of push and pull every device gets until all queues must be empty.
    private static let roundsMax = 12

    private func violation(_ guarantee: String, _ detail: String) -> WorldViolation {
        WorldViolation(seed: plan.seed, guarantee: guarantee, detail: detail)
    }

    /// Syncs all devices until nothing is pending (guarantee 4).
    func settle() async throws {
        for _ in 0..<Self.roundsMax {
            for device in devices {
                try await device.start()
                try await device.sync()
                try await device.settleErrors()
            }
            var pending = 0
            for device in devices {
                pending += try await device.client().syncContext.pendingOperationCount
            }
            if pending == 0 {
                for device in devices { try await device.sync() }
                return
            }
        }
        throw violation("liveness", "operations are pending after \(Self.roundsMax) rounds")
    }

    func judge() async throws -> WorldReport {
        let client = SyncClient(endpoint: World.endpoint, transport: server.transport)
        let truth = try await client.table(WorldItem.self).read(sortedBy: [.ascending(\.id)])
        let rows = try truth.map { try Row($0) }
        for device in devices {
            try await checkConvergence(device, rows)
            try checkLoss(device)
        }
        if let doubled = recorder.doubled {
            throw violation("at most once", "took effect twice: \(doubled)")
        }
        let (requests, history) = recorder.report
        return WorldReport(
            requests: requests,
            edits: devices.map(\.edits).reduce(0, +),
            history: history
        )
    }

    /// Guarantees 3 and 6.
    private func checkConvergence(_ device: WorldDevice, _ rows: [Row]) async throws {
        let local = try await device.rows().map { row in
            try Row(try row.decode(WorldItem.self))
        }
        let wanted = rows.filter(device.pulls)
        guard local != wanted else { return }
        // A row that is here and is none of its queries': guarantee 6.
        let isStale = local.contains { row in !wanted.contains { $0.id == row.id } }
        throw violation(
            isStale ? "nothing stale" : "convergence",
            "\(device.name) has \(local.map(Self.text)), its queries have \(wanted.map(Self.text))"
        )
    }

    /// Guarantees 1 and 7: the last thing that each user wrote to a row reached the server, unless
    /// its conflict was settled for the server's row, by the policy or by the app.
    private func checkLoss(_ device: WorldDevice) throws {
        guard device.policy != .serverWins else { return }
        func lost(_ what: String, _ id: String) -> WorldViolation {
            violation(
                "no acknowledged write is lost",
                "\(device.name) \(what) \(id), and the server never heard of it"
            )
        }
        for (id, edit) in device.lastEdits {
            switch edit {
            case .text(let text) where !recorder.had(text, id):
                throw lost("wrote '\(text)' to", id)
            case .deleted where !recorder.wasDeleted(id):
                throw lost("deleted", id)
            default: break
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
