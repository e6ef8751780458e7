// Unintended uses by an app: invalid endpoints, rows that do not decode, negative windows, and tasks that are cancelled
// while they wait.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite(.timeLimit(.minutes(10))) struct HostileUseTests {
    private let transport = ScriptedTransport()

    // MARK: - Endpoints

    @Test("The endpoint is checked only when a request is to be sent")
    func localWorkNeedsNoEndpoint() async throws {
        let url = try #require(URL(string: "http://example.com"))
        let device = try await Device(transport, endpoint: url)
        #expect(try await device.context.push().completed == 0)
        try await device.todos().insert(Todo(id: "a", text: "one"))
        try await device.todos().update(id: "a") { $0.text = "two" }
        #expect(try await device.todos().read().map(\.text) == ["two"])
        #expect(await code { try await device.context.push() } == .insecureEndpoint)
        #expect(await code { try await device.todos().pull(queryID: nil) } == .insecureEndpoint)
        // Nothing was sent, so nothing is frozen.
        #expect(try await device.queue() == ["insert a"])
        #expect(transport.sent.isEmpty)
        try await device.todos().purge(force: true)
        #expect(await code { try await device.todos().pull(queryID: nil) } == .insecureEndpoint)
    }

    /// Requests append their paths to the endpoint: a query there would be lost, or would break the path.
    @Test(
        "An endpoint with a query or a fragment is rejected",
        arguments: ["https://example.com/x?key=secret", "https://example.com/#top"]
    )
    func anEndpointWithAQueryIsRejected(_ text: String) async throws {
        let device = try await Device(transport, endpoint: try #require(URL(string: text)))
        try await device.todos().insert(Todo(id: "a"))
        let error = await #expect(throws: SyncError.self) {
            try await device.todos().pull(queryID: nil)
        }
        #expect(error?.code == .badRequest)
        #expect(error?.message.contains("query or a fragment") == true)
        #expect(error?.message.contains("secret") == false)
        #expect(try await device.queue() == ["insert a"])
        #expect(transport.sent.isEmpty)
    }

    // MARK: - Rows that do not decode

    private func deviceWithADecodingFailure() async throws -> Device {
        let device = try await Device(transport)
        try await device.seed([
            localRow("a", 1), ["id": "b", "text": "two", "complete": "perhaps"], localRow("c", 1),
        ])
        return device
    }

    @Test("A read names the row that does not decode, or skips it")
    func aReadNamesTheRowOrLeavesItOut() async throws {
        let device = try await deviceWithADecodingFailure()
        let error = await #expect(throws: SyncError.self) { try await device.todos().read() }
        #expect(error?.code == .rowDoesNotFit)
        for word in ["'Todo'", "'b'", "'complete'", "onDecodingFailure: .skip"] {
            #expect(error?.message.contains(word) == true)
        }
        #expect(error?.message.contains("perhaps") == false)
        #expect(try await device.todos().read(onDecodingFailure: .skip).map(\.id) == ["a", "c"])
        try await device.todos().delete(id: "b")
        #expect(try await device.todos().read().map(\.id) == ["a", "c"])
    }

    @Test("Observers throw an error for a row that does not decode, or skip it")
    func observersHaveTheSameChoice() async throws {
        let device = try await deviceWithADecodingFailure()
        let todos = try device.todos()
        var strict = todos.observe(onDecodingFailure: .throw).makeAsyncIterator()
        let error = await #expect(throws: SyncError.self) { try await strict.next() }
        #expect(error?.code == .rowDoesNotFit)
        var lenient = todos.observe().makeAsyncIterator()
        #expect(try await lenient.next()?.map(\.id) == ["a", "c"])
        try await todos.delete(id: "a")
        #expect(try await lenient.next()?.map(\.id) == ["c"])
        var open = todos.observe(where: { $0.text != "x" }, onDecodingFailure: .skip)
            .makeAsyncIterator()
        #expect(try await open.next()?.map(\.id) == ["c"])
    }

    // MARK: - Windows

    @Test("A negative limit or offset is rejected", arguments: [(-1, 0), (Int.min, 0), (3, -1)])
    func aNegativeWindowIsRejected(limit: Int, offset: Int) async throws {
        let device = try await deviceWithADecodingFailure()
        let todos = try device.todos()
        let query = Query<Todo>().limited(to: limit, offset: offset)
        let error = await #expect(throws: SyncError.self) {
            try await todos.read(limit: limit, offset: offset, onDecodingFailure: .skip)
        }
        #expect(error?.code == .unsupportedQuery)
        #expect(error?.message.contains(limit < 0 ? "limit" : "offset") == true)
        #expect(await code { _ = try await todos.read(query) } == .unsupportedQuery)
        #expect(
            await code { try await todos.pull(queryID: nil, query) } == .unsupportedQuery
        )
        let remote = device.client.table(Todo.self)
        #expect(await code { _ = try await remote.read(query) } == .unsupportedQuery)
        var stream = todos.observe(limit: min(limit, -1)).makeAsyncIterator()
        let end = await #expect(throws: SyncError.self) { try await stream.next() }
        #expect(end?.code == .unsupportedQuery)
        #expect(transport.sent.isEmpty)
    }

    // MARK: - Cancelled tasks

    @Test("A caller that waits for its turn ends when it is cancelled")
    func aCallerThatWaitsForATurnEndsWhenCancelled() async throws {
        let device = try await Device(transport)
        try await device.todos().insert(Todo(id: "a"))
        let (gate, opener) = AsyncStream<Void>.makeStream()
        let (begun, starter) = AsyncStream<Void>.makeStream()
        transport.add(
            .run { _ in
                starter.yield()
                for await _ in gate { break }
                return .json(201, serverRow("a", 1))
            }
        )
        let first = Task { try await device.context.push() }
        for await _ in begun { break }
        let push = Task { try await device.push() }
        let pull = Task { await code { try await device.todos().pull(queryID: nil) } }
        let purge = Task { await code { try await device.todos().purge() } }
        for task in [pull, purge] { task.cancel() }
        push.cancel()
        #expect(try await push.value?.status == .cancelled)
        #expect(await pull.value == .cancelled)
        #expect(await purge.value == .cancelled)
        opener.yield()
        #expect(try await first.value.completed == 1)
        // No caller has the turn that a cancelled task waited for.
        #expect(try await device.context.push().completed == 0)
    }

    @Test("A cancelled pull reports the cancellation")
    func aCancelledPullReportsTheCancellation() async throws {
        let device = try await Device(transport)
        transport.add(
            .run { _ in
                withUnsafeCurrentTask { $0?.cancel() }
                throw CancellationError()
            }
        )
        let pull = Task { await code { try await device.todos().pull(queryID: nil) } }
        #expect(await pull.value == .cancelled)
    }

    // MARK: - Invalid tables and seeds

    @Test(
        "An invalid column is rejected with the reason",
        arguments: [
            (
                [ColumnDefinition("a", .string), ColumnDefinition("A", .integer)],
                "two are named 'A'"
            ),
            ([ColumnDefinition("a", .enumeration([]))], "'a' is an enumeration without members"),
            (
                [ColumnDefinition("a", .integer, default: .string("x"))],
                "the default of 'a' has a value of another type than the column"
            ),
        ]
    )
    func invalidColumnsAreRejected(columns: [ColumnDefinition], fault: String) async throws {
        let schema = TableSchema(name: "Loose", columns: columns)
        await #expect {
            _ = try await Device(transport, schemas: [schema])
        } throws: { error in
            (error as? SyncError)?.code == .invalidModel && "\(error)".contains(fault)
        }
    }

    @Test("A merge rule for a column that no table has is rejected")
    func rulesForUnknownColumnsAreRejected() async throws {
        await #expect {
            _ = try await Device(transport, conflicts: .merge(["text": .append, "nope": .max]))
        } throws: { error in
            "\(error)".contains("of all tables name columns that none of them has: nope.")
        }
        _ = try await Device(transport, conflicts: .merge(["body": .append]))
    }

    @Test("Invalid records in the seed of a preview are rejected")
    func invalidSeedsAreRejected() async throws {
        for seed in [
            [Todo(id: "a"), Todo(id: "a")], [Todo(id: "a/b")], [Todo(id: "a", text: "a\u{0}b")],
        ] {
            await #expect(throws: SyncError.self) { _ = try await SyncClient.preview(seed: seed) }
        }
    }

    @Test("A filter accepts a long list, also for a nullable column")
    func listsMayBeLong() async throws {
        let device = try await Device(transport)
        let todos = try device.todos()
        try await todos.insert([Todo(id: "a", rank: 1), Todo(id: "b", rank: 2), Todo(id: "c")])
        #expect(try await todos.read(where: { [2, 3].contains($0.rank) }).map(\.id) == ["b"])
        let ids = (0..<30_000).map { "\($0)" } + ["c"]
        #expect(try await todos.read(where: { ids.contains($0.id) }).map(\.id) == ["c"])
    }

    @Test("Error messages name a record without an ID and a date that is not finite")
    func messagesNameTheFault() async throws {
        let device = try await Device(transport)
        await #expect {
            _ = try await device.todos().insert(Todo(text: "a\u{0}b"))
        } throws: {
            "\($0)".contains("Record without an id does not fit into table 'Todo'")
        }
        let never = Date(timeIntervalSince1970: .nan)
        await #expect {
            _ = try await device.todos().read(where: { $0.updatedAt == never })
        } throws: {
            "\($0)".contains("a Date that is not finite")
        }
    }

    // MARK: - Invalid limits

    @Test(
        "Unusual limits of rows and counts neither trap nor hang",
        .slow,
        arguments: [-1, 0, 1, Int.max - 1, .max]
    )
    func unusualLimitsDoNotTrap(value: Int) async throws {
        for limit in SyncLimits.rowLimits + SyncLimits.countLimits {
            var limits = SyncLimits()
            limits[keyPath: limit] = value
            limits.retryDelayFirst = .zero
            try await useOnce(limits, "\(limit) = \(value)")
            limits.batchRowsFirst = value
            limits.pageRowsFirst = value
            try await useOnce(limits, "\(limit) and the first rows = \(value)")
        }
    }

    @Test(
        "Unusual limits of time neither trap nor hang",
        .slow,
        arguments: [Duration.seconds(Int64.min), .seconds(-1), .zero, .seconds(Int64.max)]
    )
    func unusualTimesDoNotTrap(value: Duration) async throws {
        for limit in SyncLimits.timeLimits {
            var limits = SyncLimits()
            limits[keyPath: limit] = value
            try await useOnce(limits, "\(limit) = \(value)")
        }
        let device = try await Device(try await makeServer().transport, environment: .live)
        var policy = SyncPolicy()
        (policy.debounce, policy.interval) = (value, value)
        (policy.retryFirst, policy.retryMax) = (value, value)
        try device.client.startSyncing(policy)
        _ = try? await device.client.syncOnce(deadline: value)
        device.client.stopSyncing()
    }

    @Test("Every limit has a minimum, and smaller values are raised to it")
    func everyLimitIsClamped() {
        var limits = SyncLimits()
        for limit in SyncLimits.rowLimits + SyncLimits.countLimits { limits[keyPath: limit] = -1 }
        for limit in SyncLimits.timeLimits { limits[keyPath: limit] = .seconds(-1) }
        for (name, value) in Mirror(reflecting: limits).children {
            let isListed = value as? Int == -1 || value as? Duration == .seconds(-1)
            #expect(isListed, "\(name ?? "") is in none of the lists of SyncLimits")
        }
        let clamped = limits.clamped
        for limit in SyncLimits.rowLimits { #expect(clamped[keyPath: limit] == 1) }
        for limit in SyncLimits.countLimits { #expect(clamped[keyPath: limit] == 0) }
        for limit in SyncLimits.timeLimits { #expect(clamped[keyPath: limit] == .zero) }
    }

    /// Makes the usual calls of an app once.
    private func useOnce(_ limits: SyncLimits, _ what: String) async throws {
        let device = try await Device(
            try await makeServer().transport,
            limits: limits,
            environment: .live
        )
        for id in ["a", "b"] { _ = try? await device.todos().insert(Todo(id: id, text: "x")) }
        _ = try? await device.context.push()
        _ = try? await device.todos().pull(queryID: nil)
        for try await todos in try device.todos().observe() {
            #expect(todos.count <= 2, "\(what)")
            break
        }
        try? await device.todos().purge(force: true)
    }

    // MARK: - The server's row

    @Test("An error describes the server's row that dropping its operation would leave")
    func anErrorDescribesTheServersRow() async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("b", 1), localRow("c", 1)])
        try await device.todos().insert(Todo(id: "a", text: "only copy"))
        for id in ["b", "c"] { try await device.todos().update(id: id) { $0.text = "mine" } }
        transport.add(
            .json(413, #"{"error":"too long"}"#),
            .json(403, #"{"error":"no"}"#),
            .json(412, serverRow("c", 3, deleted: true))
        )
        let errors = try #require(try await device.push()).errors
        #expect(errors.map(\.serverItem) == [nil, nil, nil])
        #expect(
            errors.map(\.serverCopy) == [.neverSeen, .row(localRow("b", 1)), .deleted]
        )
        for error in errors { try await error.cancelOperationAndDiscardItem() }
        #expect(try await device.rows() == [localRow("b", 1)])
    }
}
