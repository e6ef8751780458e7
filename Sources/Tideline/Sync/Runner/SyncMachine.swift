// SyncMachine: when automatic sync pushes, pulls, listens and waits, and what it shows.
//
// Pure: events and the time go in, actions come out. One sync runs at a time; what is wanted
// meanwhile is gathered for the next. Wherever it rests, a timer is set or nothing is left to do,
// so it never sticks. The table is in docs/SYNC.md.

package import Foundation

package struct SyncMachine: Sendable {
    /// What there is to do.
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
        /// All is done but for operations that the server rejected.
        case rejected(Int)
        /// No answer, or one of a server that is not itself.
        case offline
        case unauthorized
        case failed(SyncBlock)
    }

    package enum Event: Sendable, Hashable {
        case started
        case localChange
        /// The timer with this number rang.
        case timer(Int)
        case network(isUp: Bool)
        /// The server's events are open: changes from here on are told.
        case listening
        /// A table changed on the server.
        case serverChange(table: String)
        /// The server's events ended or could not be opened.
        case listenEnded(isSupported: Bool)
        /// Somebody signed in.
        case token
        case progress(SyncEvent)
        case finished(Outcome)
    }

    package enum Action: Sendable, Hashable {
        /// Push, and pull what the work names.
        case sync(Work)
        case listen
        /// Let a timer with this number ring.
        case wait(timer: Int, Duration)
        case publish(SyncStatus)
    }

    private enum Timer: Sendable {
        case debounce
        case interval
        case retry
        case listen
    }

    private enum Problem: Sendable {
        case offline(since: Date)
        case blocked(SyncBlock)
    }

    private let policy: SyncPolicy
    private var running: Work?
    /// What is to be done next.
    private var wanted: Work?
    private var progress = SyncProgress()
    private var problem: Problem?
    private var failures = 0
    /// Whether a local change came during the sync that runs.
    private var isChangedMeanwhile = false
    /// Whether somebody signed in during the sync that runs: its requests may have gone without.
    private var isSignedInMeanwhile = false
    /// Whether the push of a local change failed too: the next one waits for the retry.
    private var isPushFailing = false
    private var listenFailures = 0
    private var isListening = false
    private var timers: [Timer: Int] = [:]
    private var lastTimer = 0
    private var shown: SyncStatus?

    package init(_ policy: SyncPolicy) { self.policy = policy.clamped }

    /// What to show.
    package var status: SyncStatus {
        if running != nil { return .syncing(progress) }
        switch problem {
        case .offline(let since): return .offline(since: since)
        case .blocked(let block): return .blocked(by: block)
        case nil: return .idle
        }
    }

    /// Takes an event in; what is to be done comes out.
    ///
    /// `fraction` in `0..<1` spreads waits.
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
            return (policy.isLive ? [.listen] : []) + sync(.all)
        case .localChange:
            return localChange()
        case .timer(let number):
            return rang(number)
        case .network(let isUp):
            return network(isUp: isUp, at: now)
        case .listening:
            isListening = true
            listenFailures = 0
            // What changed before the server began to tell.
            return isOffline ? [] : sync(.all)
        case .serverChange(let table):
            return sync(Work(tables: [table]))
        case .listenEnded(let isSupported):
            isListening = false
            guard isSupported else { return [] }
            listenFailures += 1
            return [set(.listen, after(listenFailures, fraction))]
        case .token:
            isSignedInMeanwhile = running != nil
            guard running == nil, case .blocked(.signIn) = problem else { return [] }
            return sync(.all)
        case .progress(let step):
            if running != nil { progress.advance(step) }
            return []
        case .finished(let outcome):
            return finished(outcome, at: now, fraction)
        }
    }

    private var isOffline: Bool {
        if case .offline = problem { true } else { false }
    }

    /// Begins with the work, or keeps it for after the sync that runs.
    private mutating func sync(_ work: Work) -> [Action] {
        var next = wanted ?? Work()
        next.add(work)
        guard running == nil else {
            wanted = next
            // Beside a failure: not as late as its retry.
            if isFailing, running == Work() { timers[.retry] = nil }
            return []
        }
        wanted = nil
        timers[.debounce] = nil
        timers[.retry] = nil
        return begin(next)
    }

    private mutating func begin(_ work: Work) -> [Action] {
        progress = SyncProgress()
        isChangedMeanwhile = false
        isSignedInMeanwhile = false
        running = work
        return [.sync(work)]
    }

    /// Sends local changes; what failed waits for its retry.
    private mutating func push() -> [Action] {
        guard isFailing, running == nil else { return sync(Work()) }
        return begin(Work())
    }

    private var isFailing: Bool {
        if case .blocked(.failure) = problem { true } else { false }
    }

    private mutating func localChange() -> [Action] {
        if running != nil {
            // The push that runs may be past it already.
            wanted = wanted ?? Work()
            isChangedMeanwhile = true
            return []
        }
        switch problem {
        case .offline, .blocked(.signIn): return []
        case .blocked(.failure) where isPushFailing: return []
        // A table that cannot be pulled keeps no change from being sent.
        case .blocked(.failure), .blocked(.rejectedOperations), nil: break
        }
        guard timers[.debounce] == nil else { return [] }
        return [set(.debounce, policy.debounce)]
    }

    private mutating func rang(_ number: Int) -> [Action] {
        guard let timer = timers.first(where: { $0.value == number })?.key else { return [] }
        timers[timer] = nil
        switch timer {
        case .debounce: return push()
        case .interval, .retry: return sync(.all)
        case .listen: return isListening ? [] : [.listen]
        }
    }

    private mutating func network(isUp: Bool, at now: Date) -> [Action] {
        guard isUp else {
            if running == nil, problem == nil { problem = .offline(since: now) }
            // Retries go on: a network that is said to be down may carry to this server.
            guard running == nil, timers[.retry] == nil else { return [] }
            return [set(.retry, policy.retryMax)]
        }
        guard isOffline else { return [] }
        failures = 0
        var actions: [Action] = []
        if timers.removeValue(forKey: .listen) != nil { actions.append(.listen) }
        return actions + sync(.all)
    }

    private mutating func finished(
        _ outcome: Outcome,
        at now: Date,
        _ fraction: Double
    ) -> [Action] {
        let work = running
        running = nil
        if isFailing, work == Work() {
            if let actions = pushedWhileFailing(outcome) { return actions }
        }
        isPushFailing = false
        switch outcome {
        case .done:
            problem = nil
        case .rejected(let count):
            problem = .blocked(.rejectedOperations(count))
        case .offline:
            if !isOffline { problem = .offline(since: now) }
        case .unauthorized:
            problem = .blocked(.signIn)
        case .failed(let block):
            problem = .blocked(block)
        }
        switch outcome {
        case .done, .rejected:
            failures = 0
            var actions = work?.pullsAll == false && timers[.interval] != nil ? [] : interval()
            if let wanted { actions += sync(wanted) }
            return actions
        case .offline, .failed:
            keep(work)
            failures += 1
            return [set(.retry, after(failures, fraction))]
        case .unauthorized:
            keep(work)
            return isSignedInMeanwhile ? sync(.all) : interval()
        }
    }

    /// Goes on after a push beside a failure, which stays until its retry.
    ///
    /// - Returns: Nil where the push says that nothing can be sent at all.
    private mutating func pushedWhileFailing(_ outcome: Outcome) -> [Action]? {
        switch outcome {
        case .offline, .unauthorized:
            timers[.retry] = nil
            return nil
        case .failed: isPushFailing = true
        case .done, .rejected: break
        }
        // The retry was due meanwhile, or there is more to do than that.
        guard timers[.retry] != nil else { return sync(wanted ?? .all) }
        guard isChangedMeanwhile, !isPushFailing else { return [] }
        return [set(.debounce, policy.debounce)]
    }

    /// What was not done is wanted still; it goes with the next sync.
    private mutating func keep(_ work: Work?) {
        var next = wanted ?? Work()
        next.add(work ?? Work())
        wanted = next
    }

    /// The time to the next sync of all: what was only a push does not put it off.
    private mutating func interval() -> [Action] {
        guard let interval = policy.interval else { return [] }
        return [set(.interval, interval)]
    }

    /// Doubles with each failure and is spread, so that devices do not return together.
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
