// CallerRateTests: how many requests a caller may send per second.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore

@Suite struct CallerRateTests {
    private static func limits(
        requests: Int = 0,
        writes: Int = 0,
        bytes: Int = 0
    ) -> ServerLimits {
        var limits = ServerLimits()
        limits.callerRequests = requests
        limits.callerWrites = writes
        limits.callerBytes = bytes
        return limits
    }

    @Test("A caller may send the requests of ten seconds at once")
    func aBurstOfTenSecondsIsAllowed() throws {
        let rates = try #require(CallerRates(Self.limits(requests: 2)))
        let one = CallerRates.Cost(requests: 1)
        var now: Int64 = 1_000_000_000
        for _ in 0..<20 { #expect(rates.take(one, of: "a", now: now) == nil) }
        #expect(rates.take(one, of: "a", now: now)?.seconds == 1)
        // Other callers have separate budgets.
        #expect(rates.take(one, of: "b", now: now) == nil)
        now += 1_000_000
        for _ in 0..<2 { #expect(rates.take(one, of: "a", now: now) == nil) }
        #expect(rates.take(one, of: "a", now: now) != nil)
        now += 3600 * 1_000_000
        for _ in 0..<20 { #expect(rates.take(one, of: "a", now: now) == nil) }
        #expect(rates.take(one, of: "a", now: now) != nil)
        // A clock that steps back adds nothing to a budget.
        #expect(rates.take(one, of: "a", now: now - 60_000_000)?.seconds == 1)
    }

    @Test("A costly request is accepted, and later ones are rejected until its debt is paid")
    func requestsWaitUntilADebtIsPaid() throws {
        let rates = try #require(CallerRates(Self.limits(requests: 1000, writes: 10, bytes: 100)))
        let large = CallerRates.Cost(requests: 1, writes: 300, bytes: 500)
        #expect(rates.take(large, of: "a", now: 0) == nil)
        // 300 writes with a budget of 100: it takes 20 seconds until a request is accepted again.
        #expect(rates.take(CallerRates.Cost(requests: 1), of: "a", now: 0)?.seconds == 21)
        #expect(rates.take(CallerRates.Cost(requests: 1), of: "a", now: 20_000_000)?.seconds == 1)
        #expect(rates.take(CallerRates.Cost(requests: 1), of: "a", now: 20_200_000) == nil)
        rates.charge(CallerRates.Cost(writes: 1 << 40), of: "a", now: 20_200_000)
        #expect(
            rates.take(CallerRates.Cost(requests: 1), of: "a", now: 20_200_000)?.seconds == 3600
        )
    }

    @Test("The rate of a caller's requests is not limited by default")
    func nothingIsLimitedByDefault() {
        #expect(CallerRates(ServerLimits()) == nil)
    }

    @Test("A caller over the rate limit gets 429") func aCallerOverTheLimitGets429() async throws {
        let clock = TestClock(step: 0)
        let server = try await TestServer(
            clock: clock,
            limits: Self.limits(requests: 1, writes: 100)
        )
        for _ in 0..<10 {
            #expect(await server.send("GET", "/tables/TodoItem").status == 200)
        }
        let rejected = await server.send("GET", "/tables/TodoItem")
        #expect(rejected.status == 429)
        #expect(rejected.headers["Retry-After"] == "1")
        // Monitoring requests are not limited.
        #expect(await server.send("GET", "/health").status == 200)
        let metrics = await server.send("GET", "/metrics").text
        #expect(metrics.contains("tideline_callers_limited_total 1"))
        clock.move(by: 1_000_000)
        #expect(await server.send("GET", "/tables/TodoItem").status == 200)
        #expect(await server.send("POST", "/tables/TodoItem", "{}").status == 429)
    }

    @Test("A batch is accepted as one request and charged for all its requests")
    func aBatchIsChargedForItsRequests() async throws {
        let clock = TestClock(step: 0)
        let server = try await TestServer(clock: clock, limits: Self.limits(writes: 2))
        let parts = (0..<50).map {
            BatchPart("\($0)", "post", "tables/TodoItem", #"{"id":"\#($0)"}"#)
        }
        let batch = await server.batch(parts)
        #expect(batch.partStatuses == Array(repeating: 201, count: 50))
        let rejected = await server.send("PATCH", "/tables/TodoItem/1", #"{"rank":1}"#)
        #expect(rejected.status == 429)
        #expect(rejected.headers["Retry-After"] == "16")
        clock.move(by: 16_000_000)
        #expect(await server.send("PATCH", "/tables/TodoItem/1", #"{"rank":1}"#).status == 200)
    }

    @Test(
        "Event streams and the dashboard count toward the rate limit",
        arguments: ["/$events?tables=TodoItem", "/$admin/overview", "/$admin/tables/TodoItem"]
    )
    func streamsAndTheDashboardAreCounted(target: String) async throws {
        let dashboard = Dashboard(
            gate: OperatorGate(hasAuthentication: false, isLoopback: true, host: "example.test"),
            files: []
        )
        let server = try await TestServer(
            clock: TestClock(step: 0),
            limits: Self.limits(requests: 1),
            dashboard: dashboard
        )
        for _ in 0..<10 { #expect(await server.send("GET", target).status == 200) }
        #expect(await server.send("GET", target).status == 429)
    }

    @Test(
        "Requests with invalid tokens count toward the rate limit",
        arguments: [
            "/tables/TodoItem", "/$events?tables=TodoItem", "/$admin/overview", "/metrics",
        ]
    )
    func rejectedTokensAreCounted(target: String) async throws {
        let dashboard = Dashboard(
            gate: OperatorGate(
                hasAuthentication: true,
                isLoopback: true,
                host: "example.test",
                operators: Operators(["olga"])
            ),
            files: []
        )
        let server = try await TestServer(
            clock: TestClock(step: 0),
            limits: Self.limits(requests: 1),
            operators: ["olga"],
            authenticator: try Tokens.authenticator(),
            dashboard: dashboard
        )
        let forged: HTTPFields = ["X-ZUMO-AUTH": "x"]
        for _ in 0..<10 {
            #expect(await server.send("GET", target, headers: forged).status == 401)
        }
        #expect(await server.send("GET", target, headers: forged).status == 429)
        // Callers with a valid token have separate budgets.
        let olga = try Tokens.headers("olga")
        for _ in 0..<10 { #expect(await server.send("GET", target, headers: olga).status == 200) }
    }

    @Test(
        "IPv6 addresses of the same /64 network are one caller",
        arguments: [
            ("2001:db8:1:2::1", "2001:db8:1:2:aaaa:bbbb:cccc:dddd", true),
            ("2001:db8::1", "2001:db8:0:0:1::", true),
            ("2001:db8:1:2::1", "2001:db8:1:3::1", false),
            ("::1", "::2", true),
            ("fe80::1%eth0", "fe80::2%eth0", true),
            ("10.0.0.1", "10.0.0.2", false),
        ]
    )
    func addressesOfANetworkAreOneCaller(_ one: String, _ other: String, areOne: Bool) async throws
    {
        let server = try await TestServer(
            clock: TestClock(step: 0),
            limits: Self.limits(requests: 1)
        )
        func ask(_ address: String) async -> Int {
            var request = ServerRequest(method: "GET", path: "/tables/TodoItem")
            request.address = address
            return await server.handler.handle(request).status
        }
        for _ in 0..<10 { #expect(await ask(one) == 200) }
        #expect(await ask(one) == 429)
        #expect(await ask(other) == (areOne ? 429 : 200))
    }
}
