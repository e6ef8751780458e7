// PullRun: performs the actions of PullMachine.
//
// While pages are stored, the next pages are requested and read. When the store is ready, it stores
// all pages that are ready in one transaction, because with fewer commits the pages of an index are
// written less often. On a slow connection, each page is stored as it arrives.

import Foundation
import Synchronization
import TidelineCore

/// The runner of one pull, which requests pages and stores them when they are ready.
struct PullRun {
    let steps: PullSteps
    var machine: PullMachine
    let isReading: Bool

    private var result = PullResult()
    private var action = PullMachine.Action.finish(nil)
    private var answer: PullAnswer?
    private var since: Timestamp?
    private var seen = PulledIDs()

    private var engine: SyncEngine { steps.engine }

    init(steps: PullSteps, machine: PullMachine, isReading: Bool) {
        self.steps = steps
        self.machine = machine
        self.isReading = isReading
    }

    mutating func run(pageRowsBefore: Int?) async throws -> PullResult {
        action = machine.start()
        var ready: [PullSteps.ReadyPage] = []
        while true {
            if !ready.isEmpty {
                ready = try await store(ready)
                continue
            }
            switch action {
            case .request, .follow:
                try await ask()
            case .wait(let delay):
                let environment = engine.environment
                try await engine.calls.sleep(Backoff.spread(delay, environment.fraction()))
                action = machine.waited()
            case .apply(let step):
                ready.append(take(step))
            case .finish(let failure):
                try await steps.keep(machine.pageRowsKept, before: pageRowsBefore)
                if let failure { throw steps.error(failure, answer) }
                var lookups = 0
                if machine.epoch != nil {
                    let found = try await steps.findLostRows(inPages: result.lost)
                    (result.lost, lookups) = (found.lost, found.requests)
                    result.removed += found.removed
                }
                result.requests = machine.requests + lookups
                engine.lastPulls.withLock { $0[steps.table] = engine.environment.now() }
                return result
            }
        }
    }

    private mutating func ask() async throws {
        if case .request(let from) = action { since = from.flatMap { Timestamp($0) } }
        answer = try await steps.ask(
            action,
            rows: min(
                machine.pageRows,
                max(1, engine.limits.pageRowsMax / engine.gate.pullsRunning)
            ),
            isReading: isReading,
            epoch: machine.epoch
        )
        action = answer.map { $0.pass(to: &machine) } ?? machine.failed(.unreachable)
    }

    /// Takes a page from the machine, so that the machine can continue with the next request.
    private mutating func take(_ step: PageStep) -> PullSteps.ReadyPage {
        let page = answer?.page ?? PulledPage.empty
        answer?.page = nil
        if step.position == nil { seen.insert(page) }
        let ready = PullSteps.ReadyPage(
            page: page,
            since: since,
            step: step,
            epoch: machine.epoch,
            latest: answer?.summary?.latest
        )
        action = machine.applied()
        return ready
    }

    /// Stores pages.
    ///
    /// - Returns: The pages that were read while these pages were being stored.
    private mutating func store(
        _ pages: [PullSteps.ReadyPage]
    ) async throws -> [PullSteps.ReadyPage] {
        let (steps, isStored) = (steps, StoreTurn())
        // The ids of the rows are needed only at the end of a read.
        let met = pages.contains(where: \.step.isLast) ? seen : PulledIDs()
        async let stored = steps.apply(pages, met, isStored)
        var more: [PullSteps.ReadyPage] = []
        var failure: (any Error)?
        do {
            more = try await gather(until: isStored)
        } catch {
            // The pages that arrived before the failure are stored anyway.
            failure = error
        }
        for counts in try await stored {
            result.applied += counts.applied
            result.removed += counts.removed
            result.rowsWithoutID += counts.withoutID
            result.lost += counts.lost
            engine.events.send(
                .pageApplied(
                    table: steps.table,
                    applied: counts.applied,
                    removed: counts.removed
                )
            )
        }
        if let failure { throw failure }
        return more
    }

    /// Reads pages until the store is ready for more, or until enough pages have been read.
    private mutating func gather(until isStored: StoreTurn) async throws -> [PullSteps.ReadyPage] {
        var pages: [PullSteps.ReadyPage] = []
        var (rows, bytes) = (0, 0)
        let limits = engine.limits
        while rows < limits.storedRowsMax / engine.gate.pageShares,
            bytes < limits.storedBytesMax / engine.gate.pageShares
        {
            switch action {
            case .request, .follow:
                if isStored.isSet, !pages.isEmpty { return pages }
                try await ask()
            case .apply(let step):
                let ready = take(step)
                rows += ready.page.rowCount
                bytes += ready.page.byteCount
                pages.append(ready)
            case .wait, .finish:
                return pages
            }
        }
        return pages
    }
}

/// A flag that is set when pages have been stored.
final class StoreTurn: Sendable {
    private let state = Mutex(false)

    var isSet: Bool { state.withLock { $0 } }

    func set() { state.withLock { $0 = true } }
}
