// ExplainTests: SyncContext.explain, in front of a script and of an in-process server.

import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct ExplainTests {
    private let transport = ScriptedTransport()

    private func explain(_ device: Device, _ id: String = "a") async throws -> RowExplanation {
        try await device.context.explain(table: "Todo", id: id)
    }

    @Test("A pending insert is explained as unsent, without the row's values")
    func aPendingInsertIsExplained() async throws {
        let device = try await Device(transport)
        try await device.todos().insert(Todo(id: "a", text: "secret"))
        let why = try await explain(device)
        #expect(why.reasons.map(\.code) == [.here, .unsent, .basis])
        #expect(!why.description.contains("secret"))
    }

    @Test("A change behind a lost response is explained by the unknown outcome")
    func aLostAnswerIsExplained() async throws {
        let device = try await Device(transport)
        try await device.todos().insert(Todo(id: "a"))
        transport.add(.lost)
        for _ in 0..<20 { transport.add(.lost) }
        _ = try await device.push()
        try await device.todos().update(id: "a") { $0.text = "more" }
        let codes = try await explain(device).reasons.map(\.code)
        #expect(codes.starts(with: [.here, .attempted, .outcomeUnknown, .behind]))
    }

    @Test("A parked conflict is explained with its status and both versions")
    func aRejectionIsExplained() async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("a", 1)])
        try await device.todos().update(id: "a") { $0.text = "mine" }
        transport.add(.json(412, serverRow("a", 2)))
        _ = try await device.push()
        let why = try await explain(device)
        #expect(why.has(.parked))
        #expect(why.description.contains("(412)"))
        #expect(why.description.contains("based on server version v1"))
        #expect(why.description.contains("The server now has version v2 of the row"))
        let error = try #require(try await device.context.operationErrors().first)
        try await error.cancelOperationAndDiscardItem()
        #expect(try await explain(device).description.contains("matches server version v2"))
    }

    @Test("An explanation names the pull queries that contain the row")
    func theQueriesOfARowAreListed() async throws {
        let server = try await makeServer()
        let other = try await Device(server.transport)
        for (id, rank) in [("a", 70), ("b", 1), ("c", 1)] {
            try await other.todos().insert(Todo(id: id, complete: id == "c", rank: rank))
        }
        try await other.context.push()
        let device = try await Device(server.transport)
        #expect(try await explain(device).reasons.map(\.code) == [.absent, .neverPulled])
        try await device.todos().pull(queryID: "open", where: { !$0.complete })
        try await device.todos().pull(queryID: "high", where: { $0.rank >= 60 })
        #expect(try await explain(device).description.contains("'high', 'open' contain the row."))
        let codes: [RowExplanation.Code] = [.here, .serverVersion, .held, .lastPull]
        #expect(try await explain(device, "b").reasons.map(\.code) == codes)
        #expect(
            try await explain(device, "b").description.contains(
                "The query 'open' contains the row."
            )
        )
        let missing: [RowExplanation.Code] = [.absent, .notPulled, .lastPull]
        #expect(try await explain(device, "c").reasons.map(\.code) == missing)
        try await device.todos().delete(id: "a")
        #expect(try await explain(device).has(.unsent))
        #expect(try await explain(device).isHere == false)
    }

    @Test("An explanation names the queries of the signed-in account that contain the row")
    func theQueriesOfAnAccountAreListed() async throws {
        let server = try await makeServer()
        let other = try await Device(server.transport)
        try await other.todos().insert(Todo(id: "a"))
        try await other.context.push()
        let device = try await Device(server.transport, authentication: SignIn("anna"))
        try await device.todos().pull(queryID: "open", where: { !$0.complete })
        let why = try await explain(device)
        #expect(why.has(.held))
        #expect(why.description.contains("The query 'open' contains the row."))
    }

    @Test("A row that stays after its insert was cancelled is explained as local only")
    func aCancelledEditIsOnTheDeviceOnly() async throws {
        let device = try await Device(transport)
        try await device.todos().insert(Todo(id: "a"))
        transport.add(.status(403))
        _ = try await device.push()
        let error = try #require(try await device.context.operationErrors().first)
        try await error.cancelOperationAndUpdateItem(Todo(id: "a", text: "kept"))
        #expect(try await explain(device).has(.localOnly))
    }

    @Test("An explanation of a row in an unknown table throws an error")
    func anUnknownTableIsNamed() async throws {
        let device = try await Device(transport)
        let failed = await code { _ = try await device.context.explain(table: "None", id: "a") }
        #expect(failed == .unknownTable)
    }
}
