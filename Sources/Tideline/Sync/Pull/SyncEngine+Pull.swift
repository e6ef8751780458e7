// Pull: the runner of PullMachine.

import Foundation
import Synchronization
import TidelineCore

/// What a pull did.
public struct PullResult: Sendable, Hashable {
    /// How many rows were stored.
    public var applied = 0
    /// How many rows were removed, because they are deleted on the server.
    public var removed = 0
    /// How many requests it took.
    public var requests = 0
}

extension SyncEngine {
    func pull(_ query: TableQuery, queryID: String?, in table: String) async throws -> PullResult {
        if let queryID {
            try QueryID.check(queryID)
            guard query.order.isEmpty, query.limit == nil, query.offset == 0 else {
                throw SyncError.unsupportedQuery(
                    "a pull with a query id has an order and a window of its own. Leave out order, "
                        + "limit and offset, or pull with 'queryID: nil'."
                )
            }
        }
        guard query.select == nil else {
            throw SyncError.unsupportedQuery(
                "a pull stores whole rows. Leave out the selection of fields."
            )
        }
        try query.checkWindow()
        try await pushBeforePull()
        return try await inTurn(.pull(table: table), "pull") {
            try await pullInTurn(query, queryID, table)
        }
    }

    private func pullInTurn(
        _ query: TableQuery,
        _ queryID: String?,
        _ table: String
    ) async throws -> PullResult {
        let remote = try remote.get()
        func steps() throws -> PullSteps {
            PullSteps(
                engine: self,
                remote: remote,
                dialect: remote.dialect,
                query: query,
                queryID: queryID,
                fingerprint: try PullRequest.fingerprint(query, schema: catalog.schema(table)),
                table: table
            )
        }
        events.send(.pullStarted(table: table))
        do {
            var result: PullResult
            do {
                result = try await run(try steps())
            } catch is OtherGeneration {
                // Once more: a server that is of the one and of the other is none.
                do { result = try await run(try steps()) } catch is OtherGeneration {
                    throw SyncError.pullFailed(
                        .changingServer,
                        table: table,
                        answer: nil,
                        server: remote.endpoint.name
                    )
                }
            }
            try await keepGeneration()
            events.send(
                .pullFinished(table: table, applied: result.applied, removed: result.removed)
            )
            return result
        } catch {
            let code = (error as? SyncError)?.code
            let isCancelled = error is CancellationError
            events.send(
                .pullFailed(table: table, code: isCancelled ? .cancelled : code ?? .offline)
            )
            throw error
        }
    }

    private func run(_ steps: PullSteps) async throws -> PullResult {
        let table = steps.table
        let (cursor, pageRows) = try await steps.start()
        var machine = PullMachine(
            isIncremental: steps.queryID != nil,
            position: cursor?.position ?? .start,
            epoch: cursor?.epoch,
            pageRows: pageRows,
            limits: limits
        )
        var result = PullResult()
        var action = machine.start()
        var answer: PullAnswer?
        // The answer to the next request, when it was asked for while a page was stored.
        var early: PullAnswer?
        var since: Timestamp?
        var seen = PulledIDs()
        while true {
            switch action {
            case .request, .follow:
                if case .request(let from) = action { since = from.flatMap { Timestamp($0) } }
                if early == nil { early = try await steps.ask(action, rows: machine.pageRows) }
                answer = early
                early = nil
                action = answer.map { $0.told(to: &machine) } ?? machine.failed(.unreachable)
            case .wait(let delay):
                try await environment.sleep(Backoff.spread(delay, environment.fraction()))
                action = machine.waited()
            case .apply(let step):
                let (ahead, size) = (machine.ahead, machine.pageRows)
                async let next = steps.ask(ahead, rows: size)
                let rows = answer?.page?.rows ?? []
                if step.position == nil { for row in rows { seen.insert(row.id) } }
                let counts = try await steps.apply(rows, since, step, machine.epoch, seen)
                result.applied += counts.applied
                result.removed += counts.removed
                events.send(
                    .pageApplied(table: table, applied: counts.applied, removed: counts.removed)
                )
                action = machine.applied()
                early = try await next
            case .finish(let failure):
                try await steps.keep(machine.pageRowsKept, before: pageRows)
                if let failure { throw steps.error(failure, answer) }
                result.requests = machine.requests
                lastPulls.withLock { $0[table] = environment.now() }
                return result
            }
        }
    }
}
