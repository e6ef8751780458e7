// SyncMachine: decides when automatic sync runs, and what status it shows.
//
// Pure: events and times go in, actions come out. One sync runs at a time; requests that arrive
// during a sync are combined into the next one. In every idle state, either a timer is set or no
// work is left, so the machine never gets stuck. The transition table is in docs/sync.md.

package import Foundation

/// The state machine of automatic sync, which decides when to push, pull, listen and wait.
package struct SyncMachine: Sendable {
    /// The work of one sync: the tables that it pulls.
    package struct Work: Sendable, Hashable {
        /// Whether every query is pulled.
        package var pullsAll = false
        /// The tables whose queries are pulled.
        package var tables: Set<String> = []

        package init(pullsAll: Bool = false, tables: Set<String> = []) {
            self.pullsAll = pullsAll
            self.tables = tables
        }

        package static let all = Work(pullsAll: true)

        mutating func add(_ other: Work) {
            pullsAll = pullsAll || other.pullsAll
            tables.formUnion(other.tables)
        }
    }

    package enum Outcome: Sendable, Hashable {
        case done
        /// Everything succeeded except operations that the server rejected.
        case rejected(UnacceptedRows)
        /// Everything succeeded, but the app has to resolve this number of rows that a restored
        /// server has lost.
        case lost(Int)
        /// No response arrived, or the response did not come from the server.
        case offline
        case unauthorized
        case failed(SyncBlock)
    }

    package enum Event: Sendable, Hashable {
        case started
        case localChange
        /// The timer with this number fired.
        case timer(Int)
        case network(isUp: Bool)
        /// The event stream is open; later changes are reported.
        case listening
        /// A table changed on the server.
        case serverChange(table: String)
        /// The event stream ended or could not be opened.
        ///
        /// If the server does not support events, the stream is reopened only after a sync, after a
        /// network change, or at the app's request. The response may have come from a captive
        /// portal.
        case listenEnded(isSupported: Bool)
        /// The server asked the client to wait until this time, which is `Duration` away.
        case busy(until: Date, Duration)
        /// A successful response ended the wait that the server had asked for.
        case busyEnded
        /// The user signed in.
        case token
        /// The account, its token or its rights changed.
        case accountChanged
        case progress(SyncEvent)
        case finished(Outcome)
    }

    package enum Action: Sendable, Hashable {
        /// Push, and then pull the tables of the work.
        case sync(Work)
        case listen
        /// Start a timer with this number.
        case wait(timer: Int, Duration)
        case publish(SyncStatus)
    }

    private enum Timer: Sendable {
        case debounce
        case interval
        case retry
        case listen
        case busy
    }

    private enum Problem: Sendable {
        case offline(since: Date)
        /// If `isPushFailing`, the push of a local change has failed too, and the next push waits
        /// for the retry.
        case blocked(SyncBlock, isPushFailing: Bool = false)
    }

    /// The sync that is running.
    private struct Run: Sendable {
        let work: Work
        var progress = SyncProgress()
        /// Whether a local change was made during the sync.
        var isChangedMeanwhile = false
        /// Whether the user signed in during the sync, so that its requests may have had no token.
        var isSignedInMeanwhile = false
    }

    /// The state of the server's event stream.
    private enum Stream: Sendable {
        case closed
        case opening
        case open
    }

    private let policy: SyncPolicy
    private var running: Run?
    /// The work of the next sync.
    private var wanted: Work?
    private var problem: Problem?
    /// The number of failed syncs in a row.
    private var failures = 0
    /// The time before which nothing is sent.
    private var busyUntil: Date?
    private var stream = Stream.closed
    /// The number of times in a row that the stream ended.
    private var streamEnds = 0
    /// Whether the stream may be opened at the end of this sync.
    ///
    /// This is false after a sync that was caused by opening the stream. Otherwise, a stream that
    /// breaks immediately would be reopened without a pause.
    private var mayListenAfterSync = false
    private var timers: [Timer: Int] = [:]
    private var lastTimer = 0
    private var shown: SyncStatus?

    package init(_ policy: SyncPolicy) { self.policy = policy.clamped }

    /// The status to show.
    package var status: SyncStatus {
        if let busyUntil { return .busy(until: busyUntil) }
        if let running { return .syncing(running.progress) }
        switch problem {
        case .offline(let since): return .offline(since: since)
        case .blocked(let block, _): return .blocked(by: block)
        case nil: return .idle
        }
    }

    /// Handles an event and returns the next actions.
    ///
    /// The machine uses `fraction`, a number in `0..<1`, as jitter for waits.
    package mutating func handle(
        _ event: Event,
        at now: Date,
        fraction: Double = 0
    ) -> [Action] {
        var actions = react(to: event, at: now, fraction)
        let status = status
        if status != shown {
            shown = status
            actions.append(.publish(status))
        }
        return actions
    }

    private mutating func react(
        to event: Event,
        at now: Date,
        _ fraction: Double
    ) -> [Action] {
        switch event {
        case .started:
            return listen() + sync(.all)
        case .localChange:
            return localChange()
        case .timer(let number):
            return rang(number)
        case .network(let isUp):
            return network(isUp: isUp, at: now)
        case .listening:
            stream = .open
            streamEnds = 0
            // Pulls the changes that were made before the event stream was open.
            return isOffline ? [] : sync(.all)
        case .serverChange(let table):
            return sync(Work(tables: [table]))
        case .listenEnded(let isSupported):
            stream = .closed
            guard isSupported else { return [] }
            streamEnds += 1
            return [set(.listen, after(streamEnds, fraction))]
        case .busy(let until, let wait):
            busyUntil = until
            // The jitter keeps devices that wait for the same server from retrying at the same
            // time.
            let spread = min(Backoff.spread(wait, fraction) - wait, Self.busySpreadMax)
            return [set(.busy, wait + spread)]
        case .busyEnded:
            return busyEnded()
        case .token:
            running?.isSignedInMeanwhile = true
            mayListenAfterSync = true
            let actions = listen()
            guard running == nil, case .blocked(.signIn, _) = problem else { return actions }
            return actions + sync(.all)
        case .accountChanged:
            running?.isSignedInMeanwhile = true
            failures = 0
            mayListenAfterSync = true
            return listen() + sync(.all)
        case .progress(let step):
            running?.progress.advance(step)
            return []
        case .finished(let outcome):
            return finished(outcome, at: now, fraction)
        }
    }

    private var isOffline: Bool {
        if case .offline = problem { true } else { false }
    }

    private mutating func busyEnded() -> [Action] {
        let isWaiting = busyUntil != nil
        busyUntil = nil
        timers[.busy] = nil
        guard running == nil else {
            // The response to the event stream may start the next wait, before this device has sent
            // its changes.
            mayListenAfterSync = true
            return []
        }
        return isWaiting ? listen() + sync(.all) : listen()
    }

    private static let busySpreadMax = Duration.seconds(30)

    /// Starts the work, or keeps it until the running sync ends.
    private mutating func sync(_ work: Work) -> [Action] {
        var next = wanted ?? Work()
        next.add(work)
        guard running == nil, busyUntil == nil else {
            wanted = next
            // The running push was started while a failure waits for its retry. The new work starts
            // after this push instead of at the retry.
            if isFailing, running?.work == Work() { timers[.retry] = nil }
            return []
        }
        wanted = nil
        timers[.debounce] = nil
        timers[.retry] = nil
        return begin(next)
    }

    /// Opens the server's event stream, unless it is open.
    private mutating func listen() -> [Action] {
        guard policy.isLive, case .closed = stream, busyUntil == nil else { return [] }
        timers[.listen] = nil
        stream = .opening
        return [.listen]
    }

    private mutating func begin(_ work: Work) -> [Action] {
        running = Run(work: work)
        return [.sync(work)]
    }

    /// Sends local changes; work that has failed waits for its retry.
    private mutating func push() -> [Action] {
        guard isFailing, running == nil, busyUntil == nil else { return sync(Work()) }
        return begin(Work())
    }

    private var isFailing: Bool {
        if case .blocked(.failure, _) = problem { true } else { false }
    }

    private mutating func localChange() -> [Action] {
        mayListenAfterSync = true
        if running != nil {
            // The running push may have read the queue before the change was made.
            wanted = wanted ?? Work()
            running?.isChangedMeanwhile = true
            return []
        }
        switch problem {
        case .offline, .blocked(.signIn, _): return []
        case .blocked(.failure, isPushFailing: true): return []
        // A table that cannot be pulled does not prevent changes from being sent.
        case .blocked(.failure, _), .blocked(.rejectedOperations, _), .blocked(.failingRows, _),
            .blocked(.lostRows, _), nil:
            break
        }
        guard timers[.debounce] == nil else { return [] }
        return [set(.debounce, policy.debounce)]
    }

    private mutating func rang(_ number: Int) -> [Action] {
        guard let timer = timers.first(where: { $0.value == number })?.key else { return [] }
        timers[timer] = nil
        switch timer {
        case .debounce: return push()
        case .interval, .retry:
            mayListenAfterSync = true
            return sync(.all)
        case .listen: return listen()
        case .busy:
            // The event stream is opened after a sync has shown that the server responds.
            busyUntil = nil
            mayListenAfterSync = true
            return sync(.all)
        }
    }

    private mutating func network(isUp: Bool, at now: Date) -> [Action] {
        guard isUp else {
            if running == nil, problem == nil { problem = .offline(since: now) }
            // Retries continue, because the server may be reachable over a network that is reported
            // as down.
            guard running == nil, timers[.retry] == nil else { return [] }
            return [set(.retry, policy.retryMax)]
        }
        mayListenAfterSync = true
        let actions = listen()
        guard isOffline else { return actions }
        failures = 0
        return actions + sync(.all)
    }

    private mutating func finished(
        _ outcome: Outcome,
        at now: Date,
        _ fraction: Double
    ) -> [Action] {
        let run = running
        let work = run?.work
        running = nil
        if isFailing, let run, run.work == Work() {
            if let actions = pushedWhileFailing(outcome, run) { return actions }
        }
        if case .blocked(let block, _) = problem { problem = .blocked(block) }
        switch outcome {
        case .done:
            problem = nil
        case .rejected(let rows):
            problem = .blocked(.rejectedOperations(rows))
        case .lost(let count):
            problem = .blocked(.lostRows(count))
        case .offline:
            if !isOffline { problem = .offline(since: now) }
        case .unauthorized:
            problem = .blocked(.signIn)
        case .failed(let block):
            problem = .blocked(block)
        }
        switch outcome {
        case .done, .rejected, .lost:
            failures = 0
            var actions = work?.pullsAll == false && timers[.interval] != nil ? [] : interval()
            if mayListenAfterSync {
                mayListenAfterSync = false
                actions = listen() + actions
            }
            if let wanted { actions += sync(wanted) }
            return actions
        case .offline where busyUntil != nil:
            // The work continues after the wait.
            keep(work)
            return []
        case .offline, .failed:
            keep(work)
            failures += 1
            return [set(.retry, after(failures, fraction))]
        case .unauthorized:
            keep(work)
            return run?.isSignedInMeanwhile == true ? sync(.all) : interval()
        }
    }

    /// Continues after a push that ran while another failure was waiting for its retry.
    ///
    /// - Returns: The next actions; nil if the push showed that nothing can be sent.
    private mutating func pushedWhileFailing(_ outcome: Outcome, _ run: Run) -> [Action]? {
        switch outcome {
        case .offline, .unauthorized:
            timers[.retry] = nil
            return nil
        case .failed:
            if case .blocked(let block, _) = problem {
                problem = .blocked(block, isPushFailing: true)
            }
        case .done, .rejected, .lost: break
        }
        // The retry became due during the push, or there is more to do.
        guard timers[.retry] != nil else { return sync(wanted ?? .all) }
        guard run.isChangedMeanwhile, case .blocked(_, isPushFailing: false) = problem else {
            return []
        }
        return [set(.debounce, policy.debounce)]
    }

    /// Adds unfinished work to the next sync.
    private mutating func keep(_ work: Work?) {
        var next = wanted ?? Work()
        next.add(work ?? Work())
        wanted = next
    }

    /// Starts the timer for the next full sync.
    ///
    /// A sync that only pushed does not delay it.
    private mutating func interval() -> [Action] {
        guard let interval = policy.interval else { return [] }
        return [set(.interval, interval)]
    }

    /// Returns the delay before the next retry.
    ///
    /// It doubles with each failure and has jitter, so that devices do not all retry at the same
    /// time.
    private func after(_ failures: Int, _ fraction: Double) -> Duration {
        let wait = min(policy.retryFirst * (1 << min(failures - 1, 16)), policy.retryMax)
        return Backoff.spread(wait, fraction)
    }

    private mutating func set(_ timer: Timer, _ duration: Duration) -> Action {
        lastTimer += 1
        timers[timer] = lastTimer
        return .wait(timer: lastTimer, duration)
    }
}
