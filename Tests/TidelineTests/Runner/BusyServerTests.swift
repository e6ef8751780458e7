// A server that asks for a wait with `Retry-After`: how long nothing is sent, the status during the wait, and its end.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct BusyServerTests {
    /// Gives the same answer to all requests while it is busy, otherwise behaves as an empty server, and records the
    /// time of each request.
    final class BusyServer: Transport {
        struct State {
            var answer: TransportResponse?
            var times: [Int64] = []
        }

        private let time: VirtualTime
        let state: Mutex<State>

        init(_ time: VirtualTime, _ answer: TransportResponse?) {
            self.time = time
            state = Mutex(State(answer: answer))
        }

        /// The times of the requests, in seconds since the start.
        var seconds: [Int64] {
            state.withLock { $0.times.map { ($0 - 1_767_225_600_000_000) / 1_000_000 } }
        }

        private func take() -> TransportResponse? {
            state.withLock { state in
                state.times.append(time.now)
                return state.answer
            }
        }

        func send(_ request: TransportRequest) async throws -> TransportResponse {
            if let busy = take() { return busy }
            guard request.method == "GET" else {
                return TransportResponse(
                    status: 201,
                    body: Array(serverRow("a", 1).utf8)
                )
            }
            return TransportResponse(status: 200, body: Array(#"{"items":[]}"#.utf8))
        }

        func stream(_ request: TransportRequest) async throws -> TransportStream {
            let answer = take() ?? TransportResponse(status: 404)
            let bytes = AsyncThrowingStream<[UInt8], any Error> { $0.finish() }
            return TransportStream(status: answer.status, headers: answer.headers, bytes: bytes)
        }
    }

    static func environment(_ time: VirtualTime) -> SyncEnvironment {
        SyncEnvironment(
            now: { time.date },
            makeID: { UUID().uuidString.lowercased() },
            fraction: { 0 },
            sleep: { try await time.sleep($0) }
        )
    }

    static func busy(_ status: Int = 503, _ wait: String, date: String? = nil) -> TransportResponse
    {
        var headers: HTTPFields = ["Retry-After": wait]
        headers["Date"] = date
        return TransportResponse(status: status, headers: headers)
    }

    /// Runs a device in simulated time.
    private func run(
        _ answer: TransportResponse?,
        store: any LocalStore = MemoryStore(),
        _ body: @escaping @Sendable (Device, BusyServer, VirtualTime) async throws -> Void
    ) throws {
        let time = VirtualTime()
        let server = BusyServer(time, answer)
        let end: Void? = try time.run {
            let device = try await Device(server, store: store, environment: Self.environment(time))
            try await body(device, server, time)
            device.client.stopSyncing()
        }
        #expect(end != nil)
    }

    @Test(
        "Automatic sync sends nothing before the time that the server asked for",
        arguments: [503, 429, 500, 502]
    )
    func nothingIsSentBeforeTheTime(status: Int) throws {
        try run(Self.busy(status, "600")) { device, server, time in
            try await device.todos().insert(Todo(id: "a"))
            let sync = time.start { try await device.client.runSyncing(SyncPolicy()) }
            try await time.sleep(.seconds(599))
            // The event stream and the push, which started at the same time.
            #expect(server.seconds.count <= 2)
            #expect(server.seconds.allSatisfy { $0 == 0 })
            try await time.sleep(.seconds(100))
            #expect(server.seconds.contains { $0 >= 600 })
            sync.cancel()
        }
    }

    @Test("A wait is stored for the next start of the app, and a pull by the user ends it")
    func theWaitIsStored() throws {
        let store = MemoryStore()
        try run(Self.busy(503, "600"), store: store) { device, server, time in
            try await device.todos().insert(Todo(id: "a"))
            let error = try #require(try await device.push())
            #expect(error.status == .networkFailure && error.busyUntil != nil)
            #expect(server.seconds.count == 1)
        }
        try run(nil, store: store) { device, server, time in
            let error = try #require(try await device.push())
            #expect(error.status == .networkFailure)
            #expect(error.busyUntil == time.date.addingTimeInterval(600))
            #expect(server.seconds.isEmpty)
            #expect(
                device.client.currentSyncStatus == .busy(until: time.date.addingTimeInterval(600))
            )
            // The device's own push is delayed, and the pull is sent nevertheless.
            try await device.todos().pull(queryID: "all")
            #expect(server.seconds == [0])
            #expect(
                device.client.currentSyncStatus != .busy(until: time.date.addingTimeInterval(600))
            )
            #expect(try await device.push() == nil)
        }
    }

    @Test("A push after the wait is sent, and its success ends the wait")
    func aSuccessEndsTheWait() throws {
        try run(Self.busy(429, "600")) { device, server, time in
            try await device.todos().insert(Todo(id: "a"))
            #expect(try await device.push()?.status == .networkFailure)
            server.state.withLock { $0.answer = nil }
            try await time.sleep(.seconds(601))
            #expect(try await device.push() == nil)
            #expect(server.seconds == [0, 601])
        }
    }

    @Test(
        "A wait that the response to a request for events asks for applies to all requests",
        arguments: [503, 429]
    )
    func theEventsAskForAWait(status: Int) throws {
        let time = VirtualTime()
        let server = BusyServer(time, nil)
        let portal = Portal(server)
        portal.answer { request in
            request.url.path().hasSuffix("/$events") ? Self.busy(status, "600") : nil
        }
        let end: Void? = try time.run {
            let device = try await Device(portal, environment: Self.environment(time))
            let until = time.date.addingTimeInterval(600)
            let sync = time.start { try await device.client.runSyncing(SyncPolicy()) }
            try await time.sleep(.seconds(10))
            #expect(device.client.currentSyncStatus == .busy(until: until))
            try await device.todos().insert(Todo(id: "a"))
            try await time.sleep(.seconds(580))
            #expect(server.seconds.allSatisfy { $0 == 0 })
            #expect(try await device.context.pendingOperationCount == 1)
            try await time.sleep(.seconds(100))
            #expect(try await device.context.pendingOperationCount == 0)
            sync.cancel()
        }
        #expect(end != nil)
    }

    /// 429 applies to the caller, also if other parts were accepted; a 503 among accepted parts applies to its row.
    @Test(
        "A wait that a part of a batch asks for applies to the caller or to its row",
        arguments: [(429, false, true), (429, true, true), (503, true, true), (503, false, false)]
    )
    func aPartOfABatchAsksForAWait(status: Int, isOfAll: Bool, isBusy: Bool) throws {
        let time = VirtualTime()
        let server = BusyServer(time, nil)
        let portal = Portal(server)
        let done = #"{"id":"1","status":201,"body":\#(serverRow("a", 1))}"#
        func busy(_ id: Int) -> String {
            #"{"id":"\#(id)","status":\#(status),"headers":{"Retry-After":"600"}}"#
        }
        let parts = [isOfAll ? busy(1) : done, busy(2)].joined(separator: ",")
        portal.answer { request in
            guard request.url.path().hasSuffix("/$batch") else { return nil }
            return Portal.json(200, #"{"responses":[\#(parts)]}"#)
        }
        let end: Void? = try time.run {
            let device = try await Device(portal, environment: Self.environment(time))
            for id in ["a", "b"] { try await device.todos().insert(Todo(id: id)) }
            let until = time.date.addingTimeInterval(600)
            let error = try #require(try await device.push())
            #expect(error.status == .networkFailure)
            #expect(error.completed == (isOfAll ? 0 : 1))
            #expect(error.busyUntil == (isBusy ? until : nil))
            #expect((device.client.currentSyncStatus == .busy(until: until)) == isBusy)
            // The next push sends nothing before that time.
            let count = portal.seen.count
            #expect(try await device.push()?.busyUntil == (isBusy ? until : nil))
            #expect((portal.seen.count == count) == isBusy)
        }
        #expect(end != nil)
    }

    @Test("A wait of years is shortened, and a wall clock that was set back does not extend it")
    func longWaitsAreShortened() {
        let day = Duration.seconds(86_400)
        let received = Date(timeIntervalSince1970: 1_800_000_000)
        let period = BusyPeriod(received: received, length: .seconds(1_000_000_000), lengthMax: day)
        #expect(period.remaining(at: received) == day)
        #expect(period.remaining(at: received.addingTimeInterval(-1)) == .zero)
        #expect(period.remaining(at: received.addingTimeInterval(86_401)) == .zero)
        let stored = BusyPeriod(text: period.text, lengthMax: day, now: received, uptime: nil)
        #expect(stored?.remaining(at: received) == day)
        for text in ["", "x", "1", "1 2 3", "1 -2", "99999999999999999999 5"] {
            #expect(BusyPeriod(text: text, lengthMax: day, now: received, uptime: nil) == nil)
        }
    }

    @Test(
        "Both formats of Retry-After are read, and no number traps",
        arguments: [
            ("600", nil, 600), ("0", nil, 0), ("-5", nil, 0), (" 7 ", nil, 7),
            ("99999999999999999999999999", nil, 31_536_000),
            ("-99999999999999999999999999", nil, 0), ("soon", nil, nil), ("", nil, nil),
            ("Fri, 15 Jan 2027 08:10:00 GMT", "Fri, 15 Jan 2027 08:00:00 GMT", 600),
            ("Fri, 15 Jan 2027 08:10:00 GMT", nil, 600),
            ("Fri, 15 Jan 2027 07:10:00 GMT", nil, 0),
            ("Fri, 31 Dec 9999 23:59:59 GMT", nil, 31_536_000),
        ] as [(String, String?, Int?)]
    )
    func headerFieldsAreRead(field: String, date: String?, seconds: Int?) {
        // 2027-01-15 08:00:00 GMT
        let now = Date(timeIntervalSince1970: 1_800_000_000)
        let wait = RetryAfter.wait(field, date: date, serverTime: now)
        #expect(wait == seconds.map { .seconds($0) })
    }
}
