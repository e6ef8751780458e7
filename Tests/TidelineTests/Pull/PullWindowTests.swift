// A pull without a query id may have an order and a window; each pull may have parameters.

import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct PullWindowTests {
    @Test(
        "A window of an ordered query is pulled across the server's pages",
        arguments: [(5, 0), (10, 0), (25, 5), (25, 20), (100, 30), (3, 40)]
    )
    func aWindowIsPulledWithAnyPageSize(limit: Int, offset: Int) async throws {
        let server = try await makeServer(pageSize: 10)
        let writer = try await Device(server.transport)
        try await writer.todos().insert(
            (0..<35).map { (rank: Int) in Todo(id: "r\(rank)", rank: rank) }
        )
        #expect(try await writer.push() == nil)
        let device = try await Device(server.transport)
        let query = try Query<Todo>().sorted(by: .ascending(\.rank))
            .limited(to: limit, offset: offset)
        let wanted = Array((0..<35).dropFirst(offset).prefix(limit))
        let result = try await device.todos().pull(queryID: nil, query)
        #expect(result.applied == wanted.count)
        #expect(try await device.todos().read().compactMap(\.rank).sorted() == wanted)
    }

    @Test("The parameters of a query are sent with each pull")
    func parametersAreSentWithEachPull() async throws {
        let transport = ScriptedTransport()
        let device = try await Device(transport)
        transport.add(page([serverRow("a", 3)]), page([]), page([]))
        var query = Query<Todo>()
        query.parameters["list"] = "shopping"
        for queryID in ["all", "all", nil] {
            try await device.todos().pull(queryID: queryID, query)
        }
        #expect(transport.sent.count == 3)
        #expect(transport.sent.allSatisfy { $0.query.contains("list=shopping") })
        #expect(transport.sent[1].query.contains("updatedAt ge"))
    }
}
