// PullRunner: runs one pull of a table, from its turn to its end.

import Foundation
import TidelineCore

/// The result of a pull.
public struct PullResult: Sendable, Hashable {
    /// The number of rows that were stored.
    public var applied = 0
    /// The number of rows that were removed, because they are deleted on the server or no query
    /// holds them anymore.
    public var removed = 0
    /// The number of requests that were sent.
    public var requests = 0
    /// The number of rows that cannot be stored, because they have no id or an id that is not a
    /// string.
    public var rowsWithoutID = 0
    /// The number of lost rows that this pull found after a restore of the server.
    public var lost = 0

    /// Creates a result, for an app's tests.
    public init(
        applied: Int = 0,
        removed: Int = 0,
        requests: Int = 0,
        rowsWithoutID: Int = 0,
        lost: Int = 0
    ) {
        self.applied = applied
        self.removed = removed
        self.requests = requests
        self.rowsWithoutID = rowsWithoutID
        self.lost = lost
    }
}

/// A runner of pulls, which waits for its turn and pulls a query.
struct PullRunner {
    let engine: SyncEngine

    /// Pulls a query.
    ///
    /// Set `pushesFirst` to send the queue first. If `isPatient`, nothing is sent during a wait
    /// that the server asked for; a pull that the app starts does not wait.
    func pull(
        _ query: TableQuery,
        queryID: String?,
        in table: String,
        pushesFirst: Bool = true,
        isPatient: Bool = false
    ) async throws -> PullResult {
        try engine.catalog.checkSynced(table)
        if let queryID {
            try QueryID.check(queryID)
            guard query.order.isEmpty, query.limit == nil, query.offset == 0 else {
                throw SyncError.unsupportedQuery(
                    "a pull with a query id uses its own order and limits. Remove order, "
                        + "limit and offset, or pull with 'queryID: nil'."
                )
            }
        }
        guard query.select == nil else {
            throw SyncError.unsupportedQuery(
                "a pull stores whole rows. Remove the selection of fields."
            )
        }
        try query.checkWindow()
        return try await engine.pinned {
            var left: PushError?
            if pushesFirst { left = try await engine.pushRunner.pushBeforePull() }
            return try await pull(query, queryID, table, after: left, isPatient: isPatient)
        }
    }

    /// Pulls after a push; `left` is the push's error if it left only operations that the server
    /// did not accept.
    private func pull(
        _ query: TableQuery,
        _ queryID: String?,
        _ table: String,
        after left: PushError?,
        isPatient: Bool
    ) async throws -> PullResult {
        let result: PullResult
        do {
            result = try await engine.inTurn(.pull(table: table), "pull") {
                try await pullInTurn(query, queryID, table, isPatient: isPatient)
            }
        } catch let error as SyncError {
            // If the pull fails on the server as well, the cause is not limited to a few rows.
            let isFailing = error.code == .offline || error.statusCode.map { $0 >= 500 } ?? false
            if isFailing, let left { throw left }
            throw error
        }
        try await engine.parkedOperations.countFailedPush()
        return result
    }

    private func pullInTurn(
        _ query: TableQuery,
        _ queryID: String?,
        _ table: String,
        isPatient: Bool
    ) async throws -> PullResult {
        let remote = try engine.remote.get()
        func steps() throws -> PullSteps {
            PullSteps(
                engine: engine,
                remote: remote,
                dialect: remote.dialect,
                query: query,
                queryID: queryID,
                fingerprint: try PullRequest.fingerprint(
                    query,
                    schema: engine.catalog.schema(table)
                ),
                table: table,
                isPatient: isPatient
            )
        }
        engine.events.send(.pullStarted(table: table))
        do {
            var result: PullResult
            do {
                result = try await run(try steps())
            } catch is OtherGeneration {
                // Runs only one more time, because a server that changes its generation twice is
                // not consistent.
                do { result = try await run(try steps()) } catch is OtherGeneration {
                    throw SyncError.pullFailed(
                        .changingServer,
                        table: table,
                        answer: nil,
                        server: remote.endpoint.name
                    )
                }
            }
            try await engine.serverFacts.store()
            engine.events.send(
                .pullFinished(table: table, applied: result.applied, removed: result.removed)
            )
            return result
        } catch {
            engine.events.send(.pullFailed(table: table, code: SyncError.Code(of: error)))
            // Stores the wait that the server asked for, so that it also applies after a restart of
            // the app. If the store fails, the wait is kept in memory.
            try? await engine.serverFacts.store()
            throw error
        }
    }

    private func run(_ steps: PullSteps) async throws -> PullResult {
        let start = try await steps.start()
        var run = PullRun(
            steps: steps,
            machine: PullMachine(
                isIncremental: steps.queryID != nil,
                position: start.cursor?.position ?? .start,
                epoch: start.cursor?.epoch,
                pageRows: start.pageRows,
                limits: engine.limits
            ),
            isReading: start.isReading
        )
        return try await run.run(pageRowsBefore: start.pageRows)
    }
}
