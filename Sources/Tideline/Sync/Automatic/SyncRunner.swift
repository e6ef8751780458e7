// SyncRunner: performs the actions of SyncMachine, and turns each result into an event of the
// machine.

import Foundation
import Synchronization
import TidelineCore

/// The runner of ``SyncMachine``, which performs all effects of automatic sync.
struct SyncRunner: Sendable {
    private let engine: SyncEngine
    private let policy: SyncPolicy
    private let publish: @Sendable (SyncStatus) -> Void
    private let ended: @Sendable (SyncError?) -> Void
    private let place = LastEventID()
    private let pulled = PulledTables()
    private let inbox: AsyncStream<SyncMachine.Event>
    private let send: @Sendable (SyncMachine.Event) -> Void
    /// A stream with one element for each call of ``SyncClient/resumeSyncing()``.
    private let signIns: AsyncStream<Void>
    private let signIn: @Sendable () -> Void

    init(
        _ engine: SyncEngine,
        _ policy: SyncPolicy,
        publish: @escaping @Sendable (SyncStatus) -> Void,
        ended: @escaping @Sendable (SyncError?) -> Void = { _ in }
    ) {
        self.ended = ended
        self.engine = engine
        self.policy = policy
        self.publish = publish
        let (stream, continuation) = AsyncStream.makeStream(of: SyncMachine.Event.self)
        inbox = stream
        send = { continuation.yield($0) }
        let (calls, caller) = AsyncStream.makeStream(of: Void.self)
        signIns = calls
        signIn = { caller.yield() }
    }

    /// Handles an event from outside, such as a sign-in.
    func handle(_ event: SyncMachine.Event) {
        // The account is known only after a call into the app.
        if event == .token { return signIn() }
        send(event)
        // The token determines which tables the server reports in the event stream.
        if event == .accountChanged { pulled.reopen() }
    }

    /// Handles a sign-in, and syncs everything if the last full sync was for another account.
    private func handleSignIn() async {
        if pulled.isOther(await engine.account()) {
            handle(.accountChanged)
        } else {
            send(.token)
        }
    }

    /// Syncs until the task is cancelled.
    func run() async {
        var machine = SyncMachine(policy)
        // Both streams start before the first sync, so that no change during the sync is missed.
        let changes = engine.store.changes()
        let steps = engine.events.stream()
        let busy = try? engine.remote.get()
        let periods = busy?.busy.changes()
        await withDiscardingTaskGroup { group in
            group.addTask { await watch(changes) }
            if let busy, let periods {
                reportBusyPeriods(of: busy)
                group.addTask { for await _ in periods { reportBusyPeriods(of: busy) } }
            }
            group.addTask { for await step in steps { send(.progress(step)) } }
            group.addTask { for await _ in signIns { await handleSignIn() } }
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
            group.addTask {
                send(.finished(await sync(work)))
                // A later sync does not wait for the comparison.
                await engine.schemaCheck.compareIfChanged()
            }
        case .listen:
            group.addTask { await listen() }
        case .wait(let timer, let duration):
            group.addTask {
                guard (try? await engine.environment.sleep(duration)) != nil else { return }
                send(.timer(timer))
            }
        }
    }

    /// Reports each wait that the server asks for, and its end.
    private func reportBusyPeriods(of service: RemoteService) {
        let time = service.busyTime
        if time > .zero, let until = service.busyUntil {
            send(.busy(until: until, time))
        } else if service.busy.period == nil {
            send(.busyEnded)
        }
    }

    private func watch(_ changes: AsyncStream<Set<String>>) async {
        var waiting = (try? await engine.operationErrors.all().count) ?? 0
        for await tables in changes where tables.contains(SystemTables.operations) {
            // If the store cannot be read now, the next sync reports the error.
            if (try? await engine.hasSendable()) != false {
                send(.localChange)
                continue
            }
            // Nothing can be sent. A queue that became shorter is not a local change, unless the
            // app resolved an error that kept operations from being sent.
            let errors = (try? await engine.operationErrors.all().count) ?? waiting
            if errors < waiting { send(.localChange) }
            waiting = errors
        }
    }

    private func listen() async {
        await listenToEvents()
        // Stores the wait that the response asked for, so that it also applies after a restart of
        // the app.
        try? await engine.serverFacts.store()
    }

    private func listenToEvents() async {
        // If the caller may not read one of the tables, the stream would end for all of them.
        let (tables, readable) = pulled.acceptedTables(
            of: policy.pulls(of: engine.syncedTableNames)
        )
        do {
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
                    // Reopens the stream when a table can be read again.
                    for await _ in readable { throw LiveEvents.Failure.broken }
                    throw CancellationError()
                }
                defer { group.cancelAll() }
                try await group.next()
            }
        } catch LiveEvents.Failure.unsupported {
            send(.listenEnded(isSupported: false))
        } catch LiveEvents.Failure.notFound {
            // The pulls show whether the server has the tables.
            send(.listenEnded(isSupported: !pulled.haveSucceeded(tables)))
        } catch {
            send(.listenEnded(isSupported: true))
        }
    }

    /// Pushes, and pulls the tables of `work`.
    func sync(_ work: SyncMachine.Work) async -> SyncMachine.Outcome {
        do {
            try engine.serverWait.check()
            if work.pullsAll { pulled.begin(of: await engine.account()) }
            let wanted = Set(work.tables.map { $0.lowercased() })
            let pulls = policy.pulls(of: engine.syncedTableNames).filter {
                work.pullsAll || wanted.contains($0.table.lowercased())
            }
            // The server may have asked for the wait because of a single row. A pull then succeeds.
            let pullsFirst = engine.serverWait.hasEnded && !pulls.isEmpty
            if pullsFirst, let error = await firstFailure(of: pulls) { throw error }
            var left = try await engine.pushRunner.pushBeforePull()
            if let left, left.busyUntil != nil { throw left }
            if !pullsFirst, let error = await firstFailure(of: pulls) { throw error }
            // The responses to the pulls may show that the server now accepts operations that it
            // rejected earlier.
            if try await engine.parkedOperations.release() > 0 {
                left = try await engine.pushRunner.pushBeforePull()
            }
            ended(left.flatMap { SyncError(endOfSync: $0) })
            // Includes the operations that were parked by the pushes before the pulls.
            let parked = try await engine.operationErrors.all()
            if let left {
                return .failed(
                    .failingRows(UnacceptedRows(failing: left.failingRows, parked: parked))
                )
            }
            if !parked.isEmpty { return .rejected(UnacceptedRows(parked: parked)) }
            let lost = try await engine.read { try $0.lostRecords.count() }
            return lost == 0 ? .done : .lost(lost)
        } catch {
            ended(SyncError(endOfSync: error))
            return Self.outcome(of: error)
        }
    }

    /// Runs pulls in the order of the policy, several at a time.
    ///
    /// If a pull fails, the others continue.
    private func firstFailure(of pulls: [SyncPolicy.Pull]) async -> (any Error)? {
        let first = Mutex<(any Error)?>(nil)
        try? await PolicyRunner(engine: engine).forEach(pulls) { pull in
            guard let error = await self.failure(of: pull) else { return }
            first.withLock { $0 = $0 ?? error }
        }
        return first.withLock { $0 }
    }

    private func failure(of pull: SyncPolicy.Pull) async -> (any Error)? {
        do {
            _ = try await engine.pullRunner.pull(
                pull.query,
                queryID: pull.queryID,
                in: pull.table,
                pushesFirst: false,
                isPatient: true
            )
            pulled.succeeded(pull)
            return nil
        } catch {
            let status = (error as? SyncError)?.statusCode
            if let status, [401, 403, 404, 405].contains(status) { pulled.rejected(pull) }
            return error
        }
    }

    private static func outcome(of error: PushError) -> SyncMachine.Outcome {
        switch error.status.kind {
        case .unauthorized: .unauthorized
        case .operationErrors: .rejected(UnacceptedRows(parked: error.errors))
        case .storeFailure:
            .failed(
                .failure(
                    code: (error.cause as? SyncError)?.code ?? .storeFailure,
                    message: error.description
                )
            )
        case .networkFailure, .cancelled: .offline
        }
    }

    static func outcome(of error: any Error) -> SyncMachine.Outcome {
        switch error {
        case let error as PushError:
            outcome(of: error)
        case let error as SyncError
        where [.offline, .cancelled, .suspended].contains(error.code):
            .offline
        case let error as SyncError where error.code == .unauthorized: .unauthorized
        case let error as SyncError:
            .failed(.failure(code: error.code, message: error.message))
        case is CancellationError, is TransportError: .offline
        default: .failed(.failure(code: .storeFailure, message: "The store failed."))
        }
    }
}

/// The results of the pulls since automatic sync started.
private final class PulledTables: Sendable {
    private struct State {
        /// The pulls that the server rejected the last time they ran.
        var rejected: Set<SyncPolicy.Pull> = []
        /// The tables that were pulled.
        var succeeded: Set<String> = []
        var listener: AsyncStream<Void>.Continuation?
        /// The account of the last full sync; nil before the first one.
        var account: AccountView?
    }

    private let state = Mutex(State())

    /// Stores the account at the start of a full sync.
    func begin(of account: AccountView) { state.withLock { $0.account = account } }

    /// Returns whether the last full sync was for another account.
    func isOther(_ account: AccountView) -> Bool {
        state.withLock { $0.account.map { $0 != account } ?? false }
    }

    func rejected(_ pull: SyncPolicy.Pull) { state.withLock { _ = $0.rejected.insert(pull) } }

    func succeeded(_ pull: SyncPolicy.Pull) {
        state.withLock { state in
            state.succeeded.insert(pull.table)
            if state.rejected.remove(pull) != nil { state.listener?.yield() }
        }
    }

    /// Reopens the stream of the server's events.
    func reopen() { state.withLock { _ = $0.listener?.yield() } }

    func haveSucceeded(_ tables: Set<String>) -> Bool {
        state.withLock { tables.isSubset(of: $0.succeeded) }
    }

    /// Returns the tables whose pulls the server accepts, and a stream that yields when a rejected
    /// pull succeeds.
    func acceptedTables(of pulls: [SyncPolicy.Pull]) -> (Set<String>, AsyncStream<Void>) {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
        return state.withLock { state in
            state.listener = continuation
            let rejected = Set(state.rejected.map(\.table))
            return (Set(pulls.map(\.table)).subtracting(rejected), stream)
        }
    }
}
