// SyncMachine with scripts of events: its actions, its published status, and that it never gets stuck.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit

struct SyncMachineTests {
    private static let start = Date(timeIntervalSince1970: 1000)

    private static func machine(
        _ change: (inout SyncPolicy) -> Void = { _ in }
    ) -> SyncMachine {
        var policy = SyncPolicy()
        policy.isLive = false
        policy.interval = .seconds(300)
        change(&policy)
        return SyncMachine(policy)
    }

    private static func timer(_ actions: [SyncMachine.Action]) -> (Int, Duration)? {
        for case .wait(let timer, let duration) in actions { return (timer, duration) }
        return nil
    }

    private static func work(_ actions: [SyncMachine.Action]) -> SyncMachine.Work? {
        for case .sync(let work) in actions { return work }
        return nil
    }

    @Test("A sync runs at the start and on schedule") func itSyncsAtTheStartAndOnSchedule() throws {
        var machine = Self.machine()
        #expect(
            machine.handle(.started, at: Self.start)
                == [.sync(.all), .publish(.syncing(SyncProgress()))]
        )
        let rest = machine.handle(.finished(.done), at: Self.start)
        #expect(rest.last == .publish(.idle))
        let (number, duration) = try #require(Self.timer(rest))
        #expect(duration == .seconds(300))
        #expect(Self.work(machine.handle(.timer(number), at: Self.start)) == .all)
        // A timer that fires late has no effect.
        #expect(machine.handle(.timer(number), at: Self.start).isEmpty)
    }

    @Test("Local changes are gathered for a short time and then sent")
    func itGathersLocalChanges() throws {
        var machine = Self.machine()
        _ = machine.handle(.started, at: Self.start)
        _ = machine.handle(.finished(.done), at: Self.start)
        let first = machine.handle(.localChange, at: Self.start)
        let (number, duration) = try #require(Self.timer(first))
        #expect(duration == .milliseconds(300))
        #expect(machine.handle(.localChange, at: Self.start).isEmpty)
        #expect(Self.work(machine.handle(.timer(number), at: Self.start)) == SyncMachine.Work())
        // A change during a sync is sent by the next one.
        #expect(machine.handle(.localChange, at: Self.start).isEmpty)
        #expect(Self.work(machine.handle(.finished(.done), at: Self.start)) == SyncMachine.Work())
        #expect(machine.status == .syncing(SyncProgress()))
    }

    @Test("Continuous local edits do not delay the scheduled sync")
    func pushesDoNotDelayTheSchedule() throws {
        var machine = Self.machine()
        _ = machine.handle(.started, at: Self.start)
        let rest = machine.handle(.finished(.done), at: Self.start)
        let (interval, _) = try #require(Self.timer(rest))
        for _ in 0..<3 {
            let change = machine.handle(.localChange, at: Self.start)
            let (debounce, _) = try #require(Self.timer(change))
            _ = machine.handle(.timer(debounce), at: Self.start)
            #expect(Self.timer(machine.handle(.finished(.done), at: Self.start)) == nil)
        }
        #expect(Self.work(machine.handle(.timer(interval), at: Self.start)) == .all)
    }

    @Test("A sync pulls the tables that the server's events name")
    func itPullsTheTablesThatTheServerNames() {
        var machine = Self.machine { $0.isLive = true }
        #expect(machine.handle(.started, at: Self.start).contains(.listen))
        // Changes before the stream was open were not reported.
        _ = machine.handle(.listening, at: Self.start)
        #expect(Self.work(machine.handle(.finished(.done), at: Self.start)) == .all)
        _ = machine.handle(.serverChange(table: "a"), at: Self.start)
        _ = machine.handle(.serverChange(table: "b"), at: Self.start)
        #expect(
            Self.work(machine.handle(.finished(.done), at: Self.start))
                == SyncMachine.Work(tables: ["a", "b"])
        )
        _ = machine.handle(.finished(.done), at: Self.start)
        #expect(
            Self.work(machine.handle(.serverChange(table: "a"), at: Self.start))
                == SyncMachine.Work(tables: ["a"])
        )
    }

    @Test("The event stream is reopened after growing waits")
    func itListensAgainWithLongerWaits() throws {
        var machine = Self.machine { $0.isLive = true }
        _ = machine.handle(.started, at: Self.start)
        _ = machine.handle(.finished(.done), at: Self.start)
        var waits: [Duration] = []
        for _ in 0..<9 {
            let actions = machine.handle(.listenEnded(isSupported: true), at: Self.start)
            let (number, duration) = try #require(Self.timer(actions))
            waits.append(duration)
            #expect(machine.handle(.timer(number), at: Self.start) == [.listen])
        }
        #expect(waits == [1, 2, 4, 8, 16, 32, 60, 60, 60].map { .seconds($0) })
        _ = machine.handle(.listening, at: Self.start)
        let actions = machine.handle(
            .listenEnded(isSupported: true),
            at: Self.start,
            fraction: 0.5
        )
        #expect(try #require(Self.timer(actions)).1 == .milliseconds(1125))
        // A server that never sent events is not asked for them again by a timer.
        #expect(
            Self.timer(machine.handle(.listenEnded(isSupported: false), at: Self.start)) == nil
        )
    }

    /// A captive portal may have answered the request for the events, and may be gone now.
    @Test(
        "The event stream is reopened when the network returns, after a sign-in and after a sync",
        arguments: [true, false]
    )
    func itListensAgainOnEachOccasion(isSupported: Bool) throws {
        var machine = Self.machine { $0.isLive = true }
        _ = machine.handle(.started, at: Self.start)
        let rest = machine.handle(.finished(.done), at: Self.start)
        #expect(!rest.contains(.listen), "it is being opened")
        let (interval, _) = try #require(Self.timer(rest))
        func end() { _ = machine.handle(.listenEnded(isSupported: isSupported), at: Self.start) }
        end()
        #expect(machine.handle(.network(isUp: true), at: Self.start).contains(.listen))
        end()
        #expect(machine.handle(.token, at: Self.start).contains(.listen))
        #expect(!machine.handle(.token, at: Self.start).contains(.listen), "it is being opened")
        end()
        _ = machine.handle(.timer(interval), at: Self.start)
        #expect(machine.handle(.finished(.done), at: Self.start).contains(.listen))
        // A stream that breaks at once is not opened by the sync that it caused.
        _ = machine.handle(.listening, at: Self.start)
        end()
        #expect(!machine.handle(.finished(.done), at: Self.start).contains(.listen))
    }

    @Test("The event stream is not opened without live sync")
    func itDoesNotListenWithoutLiveSync() {
        var machine = Self.machine { $0.isLive = false }
        for event in [SyncMachine.Event.started, .network(isUp: true), .token, .finished(.done)] {
            #expect(!machine.handle(event, at: Self.start).contains(.listen))
        }
    }

    @Test("The status shows since when the device has been offline")
    func itShowsHowLongItHasBeenOffline() throws {
        var machine = Self.machine { $0.interval = nil }
        _ = machine.handle(.started, at: Self.start)
        var actions = machine.handle(.finished(.offline), at: Self.start)
        #expect(actions.last == .publish(.offline(since: Self.start)))
        #expect(machine.handle(.localChange, at: Self.start).isEmpty)
        for wait in [1, 2, 4] {
            let (number, duration) = try #require(Self.timer(actions))
            #expect(duration == .seconds(wait))
            #expect(Self.work(machine.handle(.timer(number), at: Self.start)) == .all)
            actions = machine.handle(.finished(.offline), at: Self.start + 100)
            #expect(machine.status == .offline(since: Self.start))
        }
        #expect(Self.work(machine.handle(.network(isUp: true), at: Self.start)) == .all)
        _ = machine.handle(.finished(.done), at: Self.start)
        #expect(machine.status == .idle)
        // The retry that was scheduled is no longer needed.
        let (number, _) = try #require(Self.timer(actions))
        #expect(machine.handle(.timer(number), at: Self.start).isEmpty)
    }

    @Test("A blocked sync waits for a sign-in or for an edit of the rejected operation")
    func itWaitsForASignIn() {
        var machine = Self.machine()
        _ = machine.handle(.started, at: Self.start)
        _ = machine.handle(.finished(.unauthorized), at: Self.start)
        #expect(machine.status == .blocked(by: .signIn))
        #expect(machine.handle(.localChange, at: Self.start).isEmpty)
        #expect(Self.work(machine.handle(.token, at: Self.start)) == .all)
        let rejected = UnacceptedRows(count: 2)
        _ = machine.handle(.finished(.rejected(rejected)), at: Self.start)
        #expect(machine.status == .blocked(by: .rejectedOperations(rejected)))
        // An edit releases a rejected operation.
        #expect(Self.timer(machine.handle(.localChange, at: Self.start)) != nil)
        #expect(machine.handle(.token, at: Self.start).isEmpty)
    }

    @Test("A sign-in that arrives during a sync starts another sync, once")
    func aSignInDuringASyncIsNotLost() {
        var machine = Self.machine { $0.interval = nil }
        _ = machine.handle(.started, at: Self.start)
        #expect(machine.handle(.token, at: Self.start).isEmpty)
        #expect(Self.work(machine.handle(.finished(.unauthorized), at: Self.start)) == .all)
        #expect(machine.status == .syncing(SyncProgress()))
        #expect(Self.work(machine.handle(.finished(.unauthorized), at: Self.start)) == nil)
        #expect(machine.status == .blocked(by: .signIn))
        _ = machine.handle(.serverChange(table: "a"), at: Self.start)
        _ = machine.handle(.token, at: Self.start)
        #expect(
            Self.work(machine.handle(.finished(.unauthorized), at: Self.start))
                == SyncMachine.Work(pullsAll: true, tables: ["a"])
        )
        _ = machine.handle(.token, at: Self.start)
        // The sync had the sign-in in time.
        #expect(Self.work(machine.handle(.finished(.done), at: Self.start)) == nil)
        #expect(machine.status == .idle)
    }

    @Test("Local changes are sent although a failed table waits for its retry")
    func itSendsChangesDespiteAFailure() throws {
        let block = SyncBlock.failure(code: .forbidden, message: "")
        var machine = Self.machine()
        _ = machine.handle(.started, at: Self.start)
        let failed = machine.handle(.finished(.failed(block)), at: Self.start)
        let (retry, _) = try #require(Self.timer(failed))
        for _ in 0..<2 {
            let actions = machine.handle(.localChange, at: Self.start)
            let (debounce, wait) = try #require(Self.timer(actions))
            #expect(wait == .milliseconds(300))
            let push = machine.handle(.timer(debounce), at: Self.start)
            #expect(Self.work(push) == SyncMachine.Work())
            #expect(Self.timer(machine.handle(.finished(.done), at: Self.start)) == nil)
            #expect(machine.status == .blocked(by: block))
        }
        #expect(Self.work(machine.handle(.timer(retry), at: Self.start)) == .all)
        _ = machine.handle(.finished(.done), at: Self.start)
        #expect(machine.status == .idle)
    }

    private static let failure = SyncMachine.Outcome.failed(
        .failure(code: .forbidden, message: "")
    )

    @Test("Events during a push after a failure are neither lost nor delayed")
    func itContinuesAfterAPushDespiteAFailure() throws {
        var failing = Self.machine()
        _ = failing.handle(.started, at: Self.start)
        let failed = failing.handle(.finished(Self.failure), at: Self.start)
        let (retry, _) = try #require(Self.timer(failed))
        let changed = failing.handle(.localChange, at: Self.start)
        let (debounce, _) = try #require(Self.timer(changed))
        _ = failing.handle(.timer(debounce), at: Self.start)
        var machine = failing
        _ = machine.handle(.localChange, at: Self.start)
        let again = machine.handle(.finished(.done), at: Self.start)
        #expect(Self.timer(again)?.1 == .milliseconds(300))
        machine = failing
        _ = machine.handle(.serverChange(table: "a"), at: Self.start)
        #expect(
            Self.work(machine.handle(.finished(.done), at: Self.start))
                == SyncMachine.Work(pullsAll: true, tables: ["a"])
        )
        machine = failing
        #expect(machine.handle(.timer(retry), at: Self.start).isEmpty)
        let rejected = SyncMachine.Outcome.rejected(UnacceptedRows(count: 1))
        #expect(Self.work(machine.handle(.finished(rejected), at: Self.start)) == .all)
        // A push that fails, too, is not retried with every change.
        machine = failing
        #expect(Self.timer(machine.handle(.finished(Self.failure), at: Self.start)) == nil)
        #expect(machine.handle(.localChange, at: Self.start).isEmpty)
        #expect(Self.work(machine.handle(.timer(retry), at: Self.start)) == .all)
    }

    @Test("The progress counts pending, sent and received rows") func itCountsProgress() {
        var machine = Self.machine()
        _ = machine.handle(.started, at: Self.start)
        _ = machine.handle(.progress(.pushStarted(pending: 3)), at: Self.start)
        _ = machine.handle(
            .progress(.operationCompleted(table: "a", itemID: "1", kind: .insert)),
            at: Self.start
        )
        let actions = machine.handle(
            .progress(.pageApplied(table: "a", applied: 5, removed: 2)),
            at: Self.start
        )
        var progress = SyncProgress()
        (progress.pending, progress.sent, progress.received) = (3, 1, 7)
        #expect(actions == [.publish(.syncing(progress))])
        _ = machine.handle(.finished(.done), at: Self.start)
        #expect(machine.handle(.progress(.pushStarted(pending: 1)), at: Self.start).isEmpty)
    }

    @Test(
        "After any sequence of events a sync runs, a timer is set or a sign-in is needed",
        arguments: 0..<200
    )
    func itNeverGetsStuck(seed: UInt64) {
        var numbers = SeededGenerator(seed: seed)
        let hasSchedule = seed % 4 < 2
        var machine = Self.machine {
            $0.isLive = seed % 2 == 0
            if !hasSchedule { $0.interval = nil }
        }
        var timers: Set<Int> = []
        var isRunning = false
        // Whether a sign-in happened since the last sync started.
        var isSignedIn = false
        func take(_ actions: [SyncMachine.Action]) {
            for action in actions {
                switch action {
                case .sync:
                    #expect(!isRunning, "one sync at a time")
                    (isRunning, isSignedIn) = (true, false)
                case .wait(let timer, _): timers.insert(timer)
                case .listen, .publish: break
                }
            }
        }
        take(machine.handle(.started, at: Self.start))
        for step in 0..<200 {
            let now = Self.start + Double(step)
            switch Int.random(in: 0..<10, using: &numbers) {
            case 0: take(machine.handle(.localChange, at: now))
            case 1: take(machine.handle(.network(isUp: Bool.random(using: &numbers)), at: now))
            case 2: take(machine.handle(.serverChange(table: "a"), at: now))
            case 3: take(machine.handle(.listening, at: now))
            case 4: take(machine.handle(.listenEnded(isSupported: true), at: now))
            case 5:
                isSignedIn = true
                take(machine.handle(.token, at: now))
            case 6, 7:
                guard isRunning else { continue }
                isRunning = false
                let outcomes: [SyncMachine.Outcome] = [
                    .done, .offline, .unauthorized, .rejected(UnacceptedRows(count: 1)),
                    .failed(.failure(code: .badResponse, message: "")),
                ]
                take(machine.handle(.finished(outcomes.randomElement(using: &numbers)!), at: now))
            default:
                guard let timer = timers.sorted().first else { continue }
                timers.remove(timer)
                take(machine.handle(.timer(timer), at: now))
            }
            if hasSchedule {
                #expect(isRunning || !timers.isEmpty, "step \(step): nothing will ever happen")
            }
            if machine.status == .blocked(by: .signIn) {
                #expect(!isSignedIn, "step \(step): the sign-in is lost")
            }
            if case .syncing = machine.status {
                #expect(isRunning)
            } else {
                #expect(!isRunning)
            }
        }
    }
}

struct SyncTurnsTests {
    @Test("Pulls of different tables run together and do not overtake a purge")
    func pullsOfDifferentTablesRunTogether() {
        var turns = SyncTurns()
        let one = turns.ask(.pull(table: "a"))
        let two = turns.ask(.pull(table: "b"))
        let same = turns.ask(.pull(table: "a"))
        #expect(one.starts && two.starts && !same.starts)
        let purge = turns.ask(.purge)
        // A pull that could run must not overtake the purge.
        let late = turns.ask(.pull(table: "c"))
        #expect(!purge.starts && !late.starts)
        #expect(turns.end(one.id) == [same.id])
        #expect(turns.end(two.id).isEmpty)
        #expect(turns.end(same.id) == [purge.id])
        let push = turns.ask(.push)
        #expect(turns.end(purge.id) == [late.id])
        #expect(turns.end(late.id) == [push.id])
    }

    @Test("A cancelled turn lets later turns start") func aCancelledTurnLetsOthersPass() {
        var turns = SyncTurns()
        let pull = turns.ask(.pull(table: "a"))
        let push = turns.ask(.push)
        let other = turns.ask(.pull(table: "b"))
        #expect(pull.starts && !push.starts && !other.starts)
        #expect(turns.end(push.id) == [other.id])
    }
}

struct EventStreamParserTests {
    private static let text = """
        : hello\r
        \r
        id: 7\r
        event: change\r
        data: {"table":"a"}\r
        \r
        data: one
        data:  two

        event: change
        id: é8
        data

        event: nothing


        """

    private static let events = [
        ServerSentEvent(name: "change", data: #"{"table":"a"}"#, lastID: "7"),
        ServerSentEvent(name: "message", data: "one\n two", lastID: "7"),
        ServerSentEvent(name: "change", data: "", lastID: "é8"),
    ]

    @Test(
        "The event stream is parsed in the same way wherever the network splits the text",
        arguments: [1, 2, 3, 5, 7, 64, 1000]
    )
    func itReadsSplitText(of size: Int) {
        var parser = EventStreamParser()
        var events: [ServerSentEvent] = []
        var rest = Array(Self.text.utf8)[...]
        while !rest.isEmpty {
            events += parser.receive(rest.prefix(size))
            rest = rest.dropFirst(size)
        }
        #expect(events == Self.events)
    }

    @Test("The event stream parser stops at a line without an end")
    func itStopsAtALineWithoutEnd() {
        var parser = EventStreamParser()
        let piece = [UInt8](repeating: UInt8(ascii: "a"), count: 1 << 12)
        for _ in 0..<32 { #expect(parser.receive(piece).isEmpty) }
        #expect(parser.isTooLong)
    }
}
