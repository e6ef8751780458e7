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
        case rejected(UnacceptedRows)
        /// All is done, and so many rows that a restored server lost wait for the app.
        case lost(Int)
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
        ///
        /// Without support they are asked for again only after a sync, on a network change and when
        /// the app says so: what answered may have been a portal.
        case listenEnded(isSupported: Bool)
        /// The server asked for no requests before a time, which is so far away.
        case busy(until: Date, Duration)
        /// A successful answer ended that wait.
        case busyEnded
        /// Somebody signed in.
        case token
        /// The account, its token or its rights changed.
        case accountChanged
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
        case busy
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
    /// Until when nothing is sent.
    private var busyUntil: Date?
    private var failures = 0
    /// Whether a local change came during the sync that runs.
    private var isChangedMeanwhile = false
    /// Whether somebody signed in during the sync that runs: its requests may have gone without.
    private var isSignedInMeanwhile = false
    /// Whether the push of a local change failed too: the next one waits for the retry.
    private var isPushFailing = false
    private var listenFailures = 0
    private var isListening = false
    /// Whether the events are being opened.
    private var isOpening = false
    /// Whether the end of this sync is an occasion to open the events: not of one that they caused,
    /// or events that break at once would be opened without a pause.
    private var mayListenAfterSync = false
    private var timers: [Timer: Int] = [:]
    private var lastTimer = 0
    private var shown: SyncStatus?

    package init(_ policy: SyncPolicy) { self.policy = policy.clamped }

    /// What to show.
    package var status: SyncStatus {
        if let busyUntil { return .busy(until: busyUntil) }
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
            return listen() + sync(.all)
        case .localChange:
            return localChange()
        case .timer(let number):
            return rang(number)
        case .network(let isUp):
            return network(isUp: isUp, at: now)
        case .listening:
            (isListening, isOpening) = (true, false)
            listenFailures = 0
            // What changed before the server began to tell.
            return isOffline ? [] : sync(.all)
        case .serverChange(let table):
            return sync(Work(tables: [table]))
        case .listenEnded(let isSupported):
            (isListening, isOpening) = (false, false)
            guard isSupported else { return [] }
            listenFailures += 1
            return [set(.listen, after(listenFailures, fraction))]
        case .busy(let until, let wait):
            busyUntil = until
            // Devices that were sent away together do not return together.
            let spread = min(Backoff.spread(wait, fraction) - wait, Self.busySpreadMax)
            return [set(.busy, wait + spread)]
        case .busyEnded:
            return busyEnded()
        case .token:
            isSignedInMeanwhile = running != nil
            mayListenAfterSync = true
            let actions = listen()
            guard running == nil, case .blocked(.signIn) = problem else { return actions }
            return actions + sync(.all)
        case .accountChanged:
            isSignedInMeanwhile = running != nil
            failures = 0
            mayListenAfterSync = true
            return listen() + sync(.all)
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

    private mutating func busyEnded() -> [Action] {
        let isWaiting = busyUntil != nil
        busyUntil = nil
        timers[.busy] = nil
        guard running == nil else {
            // The answer to the events may begin the next wait, before the changes of this device are sent.
            mayListenAfterSync = true
            return []
        }
        return isWaiting ? listen() + sync(.all) : listen()
    }

    private static let busySpreadMax = Duration.seconds(30)

    /// Begins with the work, or keeps it for after the sync that runs.
    private mutating func sync(_ work: Work) -> [Action] {
        var next = wanted ?? Work()
        next.add(work)
        guard running == nil, busyUntil == nil else {
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

    /// Opens the server's events, unless they are open.
    private mutating func listen() -> [Action] {
        guard policy.isLive, !isListening, !isOpening, busyUntil == nil else { return [] }
        timers[.listen] = nil
        isOpening = true
        return [.listen]
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
        guard isFailing, running == nil, busyUntil == nil else { return sync(Work()) }
        return begin(Work())
    }

    private var isFailing: Bool {
        if case .blocked(.failure) = problem { true } else { false }
    }

    private mutating func localChange() -> [Action] {
        mayListenAfterSync = true
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
        case .blocked(.failure), .blocked(.rejectedOperations), .blocked(.failingRows),
            .blocked(.lostRows), nil:
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
            // The events follow once a sync has shown that the server answers.
            busyUntil = nil
            mayListenAfterSync = true
            return sync(.all)
        }
    }

    private mutating func network(isUp: Bool, at now: Date) -> [Action] {
        guard isUp else {
            if running == nil, problem == nil { problem = .offline(since: now) }
            // Retries go on: a network that is said to be down may carry to this server.
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
        let work = running
        running = nil
        if isFailing, work == Work() {
            if let actions = pushedWhileFailing(outcome) { return actions }
        }
        isPushFailing = false
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
            // It goes on when the wait is over.
            keep(work)
            return []
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
        case .done, .rejected, .lost: break
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
