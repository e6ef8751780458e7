// The log: the entries of a sync, and the values that no entry contains.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct LogTests {
    private struct SignedIn: Authentication {
        let accountID: String? = "anna"

        func token(refreshing: Bool) async throws -> String { "token-of-anna" }
    }

    private func client(
        _ transport: ScriptedTransport,
        _ log: RecordingLog
    ) async throws -> SyncClient {
        let client = SyncClient(
            endpoint: Device.endpoint,
            transport: transport,
            authentication: SignedIn(),
            log: log,
            environment: Waits().environment
        )
        try await client.syncContext.initialize(
            store: SQLiteStore(path: ":memory:", inline: true),
            tables: [Todo.self]
        )
        return client
    }

    @Test("A sync is logged without values of rows and without the token")
    func aSyncIsLoggedWithoutItsContents() async throws {
        let log = RecordingLog()
        let transport = ScriptedTransport([
            .json(201, serverRow("a", 1, text: "contents")), .json(422, #"{"error":"contents"}"#),
            page([serverRow("c", 2, text: "contents")]), .status(403),
        ])
        let client = try await client(transport, log)
        let todos = try client.syncTable(Todo.self)
        try await todos.insert(Todo(id: "a", text: "contents"))
        try await todos.insert(Todo(id: "b", text: "contents"))
        await #expect(throws: PushError.self) { try await client.syncContext.push() }
        try await todos.pull(queryID: "all", where: { $0.text == "contents" })
        await #expect(throws: SyncError.self) { try await todos.pull(queryID: nil) }

        let entries = log.entries
        let texts = entries.filter { $0.level > .trace }.map { "\($0.level): \($0.message)" }
        #expect(texts.contains("debug: A push began."))
        #expect(texts.contains("warning: An operation was parked."))
        #expect(texts.contains("debug: A pull ended."))
        #expect(texts.last == "warning: A pull failed.")
        let parked = try #require(entries.first { $0.level == .warning })
        #expect(parked.metadata == ["table": "Todo", "id": "b", "operation": "insert"])
        #expect(entries.last?.metadata["code"] == "forbidden")
        let requests = entries.filter { $0.message == "The server responded to a request." }
        #expect(requests.contains { $0.metadata["path"] == "/tables/Todo" })
        #expect(requests.contains { $0.metadata["outcome"] == "422" })
        for secret in ["contents", "token-of-anna"] {
            #expect(!entries.contains { "\($0)".contains(secret) })
        }
    }

    @Test("A push without a network is logged without warnings")
    func aPushWithoutNetworkIsNotAnError() async throws {
        let log = RecordingLog()
        let client = try await client(ScriptedTransport([.lost]), log)
        try await client.syncTable(Todo.self).insert(Todo(id: "a"))
        await #expect(throws: PushError.self) { try await client.syncContext.push() }
        #expect(log.entries.allSatisfy { $0.level <= .info })
        let early = try #require(log.entries.first { $0.level == .info })
        #expect(early.metadata == ["reason": "network", "completed": "0"])
        #expect(log.entries.contains { $0.message == "A request received no response." })
    }

    /// An event of each kind.
    private static let events: [SyncEvent] = [
        .pushStarted(pending: 1),
        .operationCompleted(table: "Todo", itemID: "a", kind: .insert),
        .operationParked(table: "Todo", itemID: "a", kind: .insert),
        .pushFinished(completed: 1, parked: 0),
        .pullStarted(table: "Todo"),
        .pageApplied(table: "Todo", applied: 1, removed: 0),
        .pullFinished(table: "Todo", applied: 1, removed: 0),
        .pullFailed(table: "Todo", code: .offline),
        .restoredServer(lost: 1),
        .schemaCompared(differences: 1),
        .verifyStarted(table: "Todo"),
        .rangeCompared(table: "Todo", VerifyResult()),
        .verifyFinished(table: "Todo", VerifyResult()),
        .verifyFailed(table: "Todo", code: .offline),
        .purgeFinished(table: nil, removed: 1),
        .rowsRemoved(table: "Todo", removed: 1),
        .rowsChanged(table: "Todo", applied: 1),
        .rowsMoved(table: "Todo", applied: 1),
        .checkStarted,
        .tableChecked(table: "Todo"),
        .checkFinished(problems: 0),
        .checkFailed(code: .cancelled),
    ]

    @Test("Each kind of event is logged as a different sentence")
    func eachKindOfEventIsLogged() {
        #expect(Self.events.map(\.name) == SyncEvent.Kind.Name.allCases)
        let sentences = Set(Self.events.map { "\($0.logEntry.message)" })
        #expect(sentences.count == SyncEvent.Kind.Name.allCases.count)
        #expect(sentences.allSatisfy { $0.hasSuffix(".") })
    }

    @Test("sync.md describes each kind of event", arguments: SyncEvent.Kind.Name.allCases)
    func eachKindOfEventIsDescribed(_ name: SyncEvent.Kind.Name) throws {
        let rows = try ProjectFile.text("docs/sync.md").split(separator: "\n")
            .filter { $0.hasPrefix("| ") }
        #expect(rows.contains { $0.contains("`\(name.rawValue)`") })
    }

    @Test("The article about errors describes each code", arguments: SyncError.Code.Kind.allCases)
    func eachCodeIsDescribed(_ code: SyncError.Code.Kind) throws {
        let article = "Sources/Tideline/Tideline.docc/ErrorsAndTheQueue.md"
        let rows = try ProjectFile.text(article).split(separator: "\n")
            .filter { $0.hasPrefix("| ``SyncError/Code/") }
        let link = "``SyncError/Code/\(code.rawValue)``"
        #expect(rows.contains { $0.split(separator: "|")[0].contains(link) })
    }

    @Test("The log levels are those of swift-log") func levelsAreThoseOfSwiftLog() {
        let names = ["trace", "debug", "info", "notice", "warning", "error", "critical"]
        #expect(SyncLogLevel.allCases.map(\.rawValue) == names)
        #expect(SyncLogLevel.allCases.sorted() == SyncLogLevel.allCases)
    }
}
