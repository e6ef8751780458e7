// The responses of a batch have a size limit: the requests after it are not executed, and their responses say so.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore

@Suite struct BatchAnswerTests {
    private static let text = String(repeating: "x", count: 1500)

    private static func server(_ hooks: [String: TableHooks] = [:]) async throws -> TestServer {
        var limits = ServerLimits()
        limits.batchAnswerBytes = 4000
        let server = try await TestServer(limits: limits, hooks: hooks)
        for id in ["a", "b"] {
            let body = #"{"id":"\#(id)","text":"\#(text)","rank":0}"#
            #expect(await server.send("POST", "/tables/TodoItem", body).status == 201)
        }
        return server
    }

    private static func ranks(_ server: TestServer) async -> [Int?] {
        let rows = await server.send("GET", "/tables/TodoItem?$orderby=id&$select=id,rank").rows
        return rows.map { $0["rank"] as? Int }
    }

    private static func patches(
        _ count: Int,
        group: String? = nil,
        headers: [String: String] = [:]
    ) -> [BatchPart] {
        (1...count).map {
            BatchPart(
                "\($0)",
                "patch",
                "tables/TodoItem/a",
                #"{"rank":\#($0)}"#,
                group: group,
                headers: headers
            )
        }
    }

    /// Each row in the responses has 1,500 bytes: the third exceeds the limit, the fourth is not executed.
    @Test(
        "Writes after the size limit of the responses are rejected with 503",
        arguments: [false, true]
    )
    func writesAreRejectedAfterTheLimit(_ hasHooks: Bool) async throws {
        var hooks = TableHooks()
        hooks.beforeWrite = { _ in }
        let server = try await Self.server(hasHooks ? ["TodoItem": hooks] : [:])
        let answer = await server.batch(Self.patches(6), continuing: true)
        #expect(answer.partStatuses == [200, 200, 200, 503, 503, 503])
        #expect(answer.partCodes[3] == "batchAnswersTooLarge")
        #expect((answer.partBody(3)["error"] as? String ?? "").contains("limits.batchAnswerBytes"))
        #expect(await Self.ranks(server) == [3, 0])
        let stopped = await server.batch(Self.patches(6))
        #expect(stopped.partStatuses == [200, 200, 200, 503, 424, 424])
    }

    @Test("An atomic group whose responses exceed the limit is not executed")
    func aGroupThatExceedsTheLimitIsNotExecuted() async throws {
        let server = try await Self.server()
        let answer = await server.batch(
            Self.patches(5, group: "g")
                + [BatchPart("b", "patch", "tables/TodoItem/b", #"{"rank":7}"#)],
            continuing: true
        )
        #expect(answer.partStatuses == [424, 424, 424, 503, 424, 200])
        #expect(answer.partCodes[0] == "groupFailed")
        #expect(await Self.ranks(server) == [0, 7])
    }

    @Test("The rows in rejections count toward the size limit of the responses")
    func rejectionsCount() async throws {
        let server = try await Self.server()
        let answer = await server.batch(
            Self.patches(5, headers: ["If-Match": #""no""#]),
            continuing: true
        )
        #expect(answer.partStatuses == [412, 412, 412, 503, 503])
    }

    @Test("A delete adds no row to the size of a batch's responses")
    func deletesDoNotCount() async throws {
        let server = try await Self.server()
        let answer = await server.batch(
            (0..<8).flatMap { number in
                [
                    BatchPart("d\(number)", "delete", "tables/TodoItem/a"),
                    BatchPart(
                        "r\(number)",
                        "patch",
                        "tables/TodoItem/b",
                        #"{"text":"","rank":\#(number)}"#
                    ),
                ]
            },
            continuing: true
        )
        #expect(answer.partStatuses.first == 204)
        #expect(!answer.partStatuses.contains(503))
    }

    @Test("A write with an idempotency key is executed on a retry after the limit rejected it")
    func writesWithAKeyMayBeRepeated() async throws {
        let server = try await Self.server()
        let parts = (1...5).map { number in
            BatchPart(
                "\(number)",
                "patch",
                "tables/TodoItem/a",
                #"{"rank":\#(number)}"#,
                headers: [
                    "Repeatability-Request-ID": "name-\(number)",
                    "Repeatability-First-Sent": HTTPDate.text(microseconds: 1_800_000_000_000_000),
                ]
            )
        }
        let first = await server.batch(parts, continuing: true)
        #expect(first.partStatuses == [200, 200, 200, 503, 503])
        #expect(first.partHeaders(2)["repeatability-result"] == "accepted")
        #expect(first.partHeaders(3)["repeatability-result"] == nil)
        let second = await server.batch(Array(parts[3...]), continuing: true)
        #expect(second.partStatuses == [200, 200])
        #expect(await Self.ranks(server) == [5, 0])
    }

    // MARK: - Memory

    /// Lists of a batch do not wait for other lists of the same batch.
    @Test(
        "Concurrent batches of many lists all succeed and release their memory",
        .timeLimit(.minutes(10))
    )
    func aBatchReservesMemoryForAllItsPages() async throws {
        let server = try await TestServer()
        await withTaskGroup(of: [Int].self) { group in
            for _ in 0..<12 {
                group.addTask {
                    await server.batch(
                        (0..<30).map { BatchPart("\($0)", "get", "tables/TodoItem?$top=1000") }
                    )
                    .partStatuses
                }
            }
            for await statuses in group {
                #expect(statuses == Array(repeating: 200, count: 30))
            }
        }
        #expect(server.handler.service.settings.traffic.reservedAnswerBytes == 0)
    }
}
