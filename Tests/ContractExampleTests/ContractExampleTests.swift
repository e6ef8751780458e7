// ContractExampleTests: the example code in a class on the main actor, and as a separate program, with
// the settings of a plain Swift 6 package.

import Foundation
import Testing
import Tideline
import TidelineServer

struct TodoItem: SyncRecord {
    var id = UUID().uuidString.lowercased()
    var text: String
    var complete = false
    var updatedAt: Date?
}

@MainActor
final class Screen {
    var search = "milk"
    private(set) var shown: [TodoItem] = []
    let client: SyncClient
    let todos: SyncTable<TodoItem>

    init(endpoint: URL, store: String) async throws {
        client = SyncClient(endpoint: endpoint)
        try await client.syncContext.initialize(
            store: try SQLiteStore(path: store),
            tables: [TodoItem.self]
        )
        todos = try client.syncTable(TodoItem.self)
    }

    func edit() async throws -> [Int] {
        let milk = try await todos.insert(TodoItem(text: "Buy milk"))
        let open = try await todos.read(
            where: { !$0.complete && $0.text.contains(self.search) },
            sortedBy: [SortDescriptor(\.text)]
        )
        let text = search
        let same = try await todos.read(
            where: #Predicate { !$0.complete && $0.text.contains(text) }
        )
        let weak = try await todos.read { [search] in $0.text.contains(search) }
        try await todos.update(id: milk.id) { $0.text += " for \(self.search)" }
        return [open.count, same.count, weak.count]
    }

    func follow() async throws {
        for try await items in todos.observe(where: { $0.text.contains(self.search) }) {
            shown = items
            if items.count == 2 { break }
            try await todos.insert(TodoItem(text: "More milk"))
        }
    }

    func sync() async throws -> Int {
        try await client.syncContext.push()
        try await todos.pull(queryID: "openItems", where: { !$0.complete })
        try await todos.pull(queryID: nil)
        try await todos.purge()
        return try await client.table(TodoItem.self).read(where: { $0.text.contains(self.search) })
            .count
    }
}

@Suite(.timeLimit(.minutes(10))) struct ContractExampleTests {
    @Test("The example runs in a class on the main actor")
    @MainActor func inAClassOfTheMainActor() async throws {
        try await withServer { endpoint, folder in
            let screen = try await Screen(
                endpoint: endpoint,
                store: folder.appending(path: "todo.sqlite").path()
            )
            let counts = try await screen.edit()
            #expect(counts == [1, 1, 1])
            try await screen.follow()
            #expect(screen.shown.map(\.text).sorted() == ["Buy milk for milk", "More milk"])
            let there = try await screen.sync()
            #expect(there == 2)
        }
    }

    @Test("The example runs as top-level code of a program") func asTopLevelCode() async throws {
        try await withServer { endpoint, folder in
            let output = try await run(
                "ContractExampleMain",
                [endpoint.absoluteString, folder.appending(path: "todo.sqlite").path()]
            )
            #expect(
                output == """
                    read 1 1 1 1
                    observed 1
                    observed 2
                    pulled 2 left 0 there 1

                    """
            )
        }
    }
}

/// Runs `body` with a server that has the table of the example, and a temporary folder.
func withServer(
    isolation: isolated (any Actor)? = #isolation,
    _ body: (URL, URL) async throws -> Void
) async throws {
    let folder = FileManager.default.temporaryDirectory
        .appending(path: "tideline-" + UUID().uuidString.lowercased())
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    var configuration = ServerConfiguration()
    configuration.port = 0
    configuration.database = .sqlite(path: folder.appending(path: "server.db").path())
    configuration.log.level = .error
    configuration.tables = [
        TableDefinition(
            "TodoItem",
            columns: [ColumnDefinition("text", .string), ColumnDefinition("complete", .boolean)]
        )
    ]
    let server = TidelineServer(configuration: configuration)
    let endpoint = try await server.start()
    do {
        try await body(endpoint, folder)
    } catch {
        await server.stop()
        throw error
    }
    await server.stop()
}

/// Runs a program from the folder of the test bundle, and returns its output.
func run(_ program: String, _ arguments: [String]) async throws -> String {
    let bundle = Bundle.allBundles.first { $0.bundlePath.hasSuffix(".xctest") }?.bundleURL
    let own = bundle ?? URL(filePath: CommandLine.arguments[0])
    let process = Process()
    process.executableURL = own.resolvingSymlinksInPath().deletingLastPathComponent()
        .appending(path: program)
    process.arguments = arguments
    let output = Pipe()
    process.standardOutput = output
    let status = try await withCheckedThrowingContinuation { continuation in
        process.terminationHandler = { continuation.resume(returning: $0.terminationStatus) }
        do {
            try process.run()
        } catch {
            continuation.resume(throwing: error)
        }
    }
    #expect(status == 0)
    return String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
}
