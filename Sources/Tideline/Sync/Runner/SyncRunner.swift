// SyncRunner: the runner of SyncMachine: everything that automatic sync does is done here, and
// everything that happens comes in as an event of one line.

import Foundation
import Synchronization
import TidelineCore

struct SyncRunner: Sendable {
    private let engine: SyncEngine
    private let policy: SyncPolicy
    private let publish: @Sendable (SyncStatus) -> Void
    private let place = LivePlace()
    private let refused = RefusedPulls()
    private let inbox: AsyncStream<SyncMachine.Event>
    private let send: @Sendable (SyncMachine.Event) -> Void

    init(
        _ engine: SyncEngine,
        _ policy: SyncPolicy,
        publish: @escaping @Sendable (SyncStatus) -> Void
    ) {
        self.engine = engine
        self.policy = policy
        self.publish = publish
        let (stream, continuation) = AsyncStream.makeStream(of: SyncMachine.Event.self)
        inbox = stream
        send = { continuation.yield($0) }
    }

    /// Somebody signed in, or the app knows of another occasion.
    func tell(_ event: SyncMachine.Event) { send(event) }

    /// Syncs until the task is cancelled.
    func run() async {
        var machine = SyncMachine(policy)
        // Both begin before the first sync: what happens meanwhile is not missed.
        let changes = engine.store.changes()
        let steps = engine.events.stream()
        await withDiscardingTaskGroup { group in
            group.addTask { await watch(changes) }
            group.addTask { for await step in steps { send(.progress(step)) } }
            group.addTask {
                for await isUp in engine.environment.networkPaths() {
                    send(.network(isUp: isUp))
                }
            }
            send(.started)
            for await event in inbox {
                for action in machine.handle(
                    event,
                    at: engine.environment.now(),
                    fraction: engine.environment.fraction()
                ) {
                    perform(action, &group)
                }
            }
            group.cancelAll()
        }
    }

    private func perform(_ action: SyncMachine.Action, _ group: inout DiscardingTaskGroup) {
        switch action {
        case .publish(let status):
            publish(status)
        case .sync(let work):
            group.addTask { send(.finished(await sync(work))) }
        case .listen:
            group.addTask { await listen() }
        case .wait(let timer, let duration):
            group.addTask {
                guard (try? await engine.environment.sleep(duration)) != nil else { return }
                send(.timer(timer))
            }
        }
    }

    private func watch(_ changes: AsyncStream<Set<String>>) async {
        var waiting = (try? await engine.operationErrors().count) ?? 0
        for await tables in changes where tables.contains(SystemTables.operations) {
            let errors = (try? await engine.operationErrors().count) ?? waiting
            // What the app settled may have been all that was in the way. Else the queue changes too
            // when it gets shorter.
            let isSettled = errors < waiting
            waiting = errors
            if (try? await engine.hasSendable()) == true || isSettled { send(.localChange) }
        }
    }

    private func listen() async {
        do {
            let (tables, readable) = refused.others(of: policy.pulls(of: engine.tableNames))
            // One table that the caller may not read would close the events of all.
            guard !tables.isEmpty else { return send(.listenEnded(isSupported: true)) }
            let events = LiveEvents(
                remote: try engine.remote.get(),
                tables: Array(tables.sorted().prefix(LiveEvents.tablesMax)),
                place: place
            )
            try await withThrowingTaskGroup { group in
                group.addTask {
                    try await events.listen {
                        send(.listening)
                    } changed: {
                        send(.serverChange(table: $0))
                    }
                }
                group.addTask {
                    // Opened anew with a table that can be read again.
                    for await _ in readable { throw LiveEvents.Failure.broken }
                    throw CancellationError()
                }
                defer { group.cancelAll() }
                try await group.next()
            }
        } catch LiveEvents.Failure.unsupported {
            send(.listenEnded(isSupported: false))
        } catch {
            send(.listenEnded(isSupported: true))
        }
    }

    /// Pushes, and pulls what the work names.
    func sync(_ work: SyncMachine.Work) async -> SyncMachine.Outcome {
        do {
            try await engine.pushBeforePull()
            let wanted = Set(work.tables.map { $0.lowercased() })
            try await withThrowingTaskGroup { group in
                for pull in policy.pulls(of: engine.tableNames)
                where work.pullsAll || wanted.contains(pull.table.lowercased()) {
                    group.addTask {
                        try await self.pull(pull)
                    }
                }
                try await group.waitForAll()
            }
            // Also those of the pushes before the pulls.
            let rejected = try await engine.operationErrors().count
            return rejected == 0 ? .done : .rejected(rejected)
        } catch {
            return Self.outcome(of: error)
        }
    }

    private func pull(_ pull: SyncPolicy.Pull) async throws {
        do {
            _ = try await engine.pull(pull.query, queryID: pull.queryID, in: pull.table)
            refused.remove(pull)
        } catch let error as SyncError {
            if let status = error.statusCode, [401, 403, 404, 405].contains(status) {
                refused.insert(pull)
            }
            throw error
        }
    }

    private static func outcome(of error: PushError) -> SyncMachine.Outcome {
        switch error.status {
        case .unauthorized: .unauthorized
        case .operationErrors: .rejected(error.errors.count)
        case .storeFailure: .failed(.failure(code: .storeFailure, message: error.description))
        default: .offline
        }
    }

    static func outcome(of error: any Error) -> SyncMachine.Outcome {
        switch error {
        case let error as PushError:
            outcome(of: error)
        case let error as SyncError where error.code == .offline || error.code == .cancelled:
            .offline
        case let error as SyncError where error.code == .unauthorized: .unauthorized
        case let error as SyncError:
            .failed(.failure(code: error.code, message: error.message))
        case is CancellationError, is TransportError: .offline
        default: .failed(.failure(code: .storeFailure, message: "The store failed."))
        }
    }
}

/// The queries whose last pull the server refused.
private final class RefusedPulls: Sendable {
    private struct State {
        var pulls: Set<SyncPolicy.Pull> = []
        var listener: AsyncStream<Void>.Continuation?
    }

    private let state = Mutex(State())

    func insert(_ pull: SyncPolicy.Pull) { state.withLock { _ = $0.pulls.insert(pull) } }

    func remove(_ pull: SyncPolicy.Pull) {
        state.withLock { state in
            if state.pulls.remove(pull) != nil { state.listener?.yield() }
        }
    }

    /// The tables of which no query is refused, and a stream that tells when one no longer is.
    func others(of pulls: [SyncPolicy.Pull]) -> (Set<String>, AsyncStream<Void>) {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
        return state.withLock { state in
            state.listener = continuation
            let refused = Set(state.pulls.map(\.table))
            return (Set(pulls.map(\.table)).subtracting(refused), stream)
        }
    }
}

extension SyncEngine {
    /// The tables of the app, by name.
    var tableNames: [String] { catalog.schemas.keys.sorted() }

    /// Whether an operation waits that can be sent.
    func hasSendable() async throws -> Bool {
        try await read { reader in
            var place: Int64 = 0
            while true {
                let operations = try reader.operations(after: place, limit: 50)
                guard let last = operations.last else { return false }
                // Operations of a table that the app no longer names wait until it names it again,
                // those behind an entry that cannot be read until that is settled.
                let waiting = try reader.unreadableRows()
                let canBeSent = operations.contains {
                    reader.catalog.names(tableOf: $0) && !waiting.contains($0.row)
                }
                if canBeSent { return true }
                place = last.id
            }
        }
    }
}
