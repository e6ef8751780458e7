// Device: a client with its store, in front of a script or an in-process server.

package import Foundation
import Synchronization
package import Tideline
package import TidelineCore
import TidelineServerCore
package import TidelineTestKit

/// The record of these tests: all system properties.
package struct Todo: SyncRecord, Hashable {
    package var id = ""
    package var text = ""
    package var complete = false
    package var rank: Int?
    package var version: String?
    package var updatedAt: Date?

    package init() {}

    package init(
        id: String = "",
        text: String = "",
        complete: Bool = false,
        rank: Int? = nil,
        version: String? = nil,
        updatedAt: Date? = nil
    ) {
        self.id = id
        self.text = text
        self.complete = complete
        self.rank = rank
        self.version = version
        self.updatedAt = updatedAt
    }
}

/// The same table without system properties.
package struct Plain: SyncRecord, Hashable {
    package static let tableName = "Todo"
    package var id = ""
    package var text = ""
    package var complete = false
    package var rank: Int?

    package init() {}

    package init(id: String = "", text: String = "", complete: Bool = false, rank: Int? = nil) {
        self.id = id
        self.text = text
        self.complete = complete
        self.rank = rank
    }
}

/// A second table.
package struct Note: SyncRecord, Hashable {
    package var id = ""
    package var body = ""

    package init() {}

    package init(id: String = "", body: String = "") {
        self.id = id
        self.body = body
    }
}

/// A device in a test.
package struct Device: Sendable {
    package let client: SyncClient
    package let store: any LocalStore
    package let waits: Waits

    package static let endpoint = URL(string: "http://localhost") ?? URL(filePath: "/")

    /// Opens a client; the tables are `Todo` and `Note`.
    package init(
        _ transport: any Transport,
        store: any LocalStore = MemoryStore(),
        conflicts: ConflictPolicy = .fail,
        limits: SyncLimits = SyncLimits(),
        endpoint: URL = Self.endpoint,
        tables: [any SyncRecord.Type] = [Todo.self, Note.self],
        schemas: [TableSchema] = [],
        authentication: (any Authentication)? = nil,
        generation: ServerGeneration = .automatic,
        environment: SyncEnvironment? = nil,
        lostRows: LostRowPolicy = .ask
    ) async throws {
        let waits = Waits()
        self.waits = waits
        self.store = store
        client = SyncClient(
            endpoint: endpoint,
            generation: generation,
            transport: transport,
            authentication: authentication,
            limits: limits,
            environment: environment ?? waits.environment
        )
        try await client.syncContext.initialize(
            store: store,
            tables: tables,
            schemas: schemas,
            conflicts: conflicts,
            lostRows: lostRows
        )
    }

    package var context: SyncContext { client.syncContext }

    package func todos() throws -> SyncTable<Todo> { try client.syncTable(Todo.self) }

    /// Pushes, and returns the push's error; nil if it succeeded.
    package func push() async throws -> PushError? {
        do {
            try await context.push()
            return nil
        } catch let error as PushError {
            return error
        }
    }

    /// Returns the queue, one text for each operation.
    package func queue() async throws -> [String] {
        try await context.pendingOperations().map { operation in
            let flags =
                (operation.isAttempted ? " attempted" : "") + (operation.isParked ? " parked" : "")
            return "\(operation.kind) \(operation.itemID)\(flags)"
        }
    }

    /// Returns the rows of a table as the store has them, without query membership.
    package func rows(_ table: String = "Todo") async throws -> [Row] {
        try await store.read { try $0.rows(TableQuery(), in: table) }
            .map { row in
                var row = row
                row["__queries"] = nil
                return row
            }
    }

    /// Stores rows that the server has, without the push of an insert; another query contains them.
    package func seed(_ rows: [Row], _ table: String = "Todo") async throws {
        let stored = rows.map { row in
            var row = row
            row["__queries"] = .integer(1 << 40)
            return row
        }
        try await store.write { try $0.put(stored, in: table) }
    }
}

/// The waits of a client, none of which takes time.
package final class Waits: Sendable {
    private let state = Mutex<[Duration]>([])

    package init() {}

    package var all: [Duration] { state.withLock { $0 } }

    package var environment: SyncEnvironment {
        SyncEnvironment(
            now: { Date(timeIntervalSince1970: 1_800_000_000) },
            makeID: { UUID().uuidString.lowercased() },
            fraction: { 0 },
            sleep: { [self] duration in
                try Task.checkCancellation()
                state.withLock { $0.append(duration) }
            }
        )
    }
}

/// Returns the server's row `id`, as text.
package func serverRow(
    _ id: String,
    _ version: Int,
    text: String = "server",
    rank: Int? = nil,
    deleted: Bool = false,
    _ more: String = ""
) -> String {
    """
    {"id":"\(id)","text":"\(text)","complete":false,"rank":\(rank.map(String.init) ?? "null"),\
    "createdAt":"2026-01-01T00:00:00.000Z","updatedAt":"\(timestamp(version))",\
    "version":"v\(version)","deleted":\(deleted)\(more)}
    """
}

/// Returns the commit timestamp of a version: that many seconds into the year 2026.
package func timestamp(_ version: Int) -> String {
    Timestamp(microseconds: 1_767_225_600_000_000 + Int64(version) * 1_000_000).text
}

/// Returns a page of rows.
package func page(_ rows: [String], next: String? = nil) -> ScriptedTransport.Answer {
    .json(
        200,
        "{\"items\":[\(rows.joined(separator: ","))]"
            + (next.map { ",\"nextLink\":\"\($0)\"" } ?? "") + "}"
    )
}

/// Returns the row `id` as the store has it after a pull of `version`.
package func localRow(
    _ id: String,
    _ version: Int,
    text: String = "server",
    rank: Int? = nil
) -> Row {
    [
        "id": .string(id), "text": .string(text), "complete": false,
        "rank": rank.map { .integer(Int64($0)) } ?? .null,
        "createdAt": .date(Date(timeIntervalSince1970: 1_767_225_600)),
        "updatedAt": .date(Date(timeIntervalSince1970: 1_767_225_600 + Double(version))),
        "version": .string("v\(version)"),
    ]
}

/// Makes an in-process server with the tables of these tests; its clock is `ahead` seconds ahead of the devices'
/// clocks.
package func makeServer(pageSize: Int? = nil, ahead: Int64 = 0) async throws -> InProcessServer {
    let time = (1_800_000_000 + ahead) * 1_000_000
    return try await InProcessServer(
        tables: [
            TableDefinition(
                "Todo",
                columns: [
                    ColumnDefinition("text", .string),
                    ColumnDefinition("complete", .boolean),
                    ColumnDefinition("rank", .integer),
                ],
                pageSize: pageSize
            ),
            TableDefinition("Note", columns: [ColumnDefinition("body", .string)]),
        ],
        environment: ServerEnvironment(now: { time }, makeID: ServerEnvironment.live.makeID)
    )
}

/// Runs `body` with a path at which no file exists; the folder is removed when the test ends.
package func withTemporaryFile<Result>(
    _ body: (String) async throws -> Result
) async throws -> Result {
    let folder = FileManager.default.temporaryDirectory
        .appending(path: "tideline-" + UUID().uuidString.lowercased())
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    return try await body(folder.appending(path: "store.sqlite").path())
}

/// Returns the code of the ``SyncError`` that a call throws.
package func code(_ body: () async throws -> Void) async -> SyncError.Code? {
    do {
        try await body()
        return nil
    } catch {
        return (error as? SyncError)?.code
    }
}
