// RestorableServer: a test's server whose database is backed up, and restored or replaced.

import Foundation
import Synchronization
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineServerSQLite
import TidelineTestKit
import TidelineTestSupport

/// A server with its database in a file, which devices reach through one transport all the time.
final class RestorableServer: Transport {
    private struct State {
        var transport: InProcessTransport
        var file: String
        var count = 0
        var sent: [TransportRequest] = []
    }

    private let folder: String
    private let definitions: [TableDefinition]
    private let time = Mutex<Int64>(1_800_000_000_000_000)
    private let state: Mutex<State>

    /// The tables are those of ``Device``.
    init(
        in folder: String,
        softDelete: Bool = true,
        conflict: ConflictRule = .reject,
        more: [TableDefinition] = []
    ) async throws {
        self.folder = folder
        var todo = TableDefinition(
            "Todo",
            columns: [
                ColumnDefinition("text", .string),
                ColumnDefinition("complete", .boolean),
                ColumnDefinition("rank", .integer),
            ]
        )
        todo.softDelete = softDelete
        todo.conflict = conflict
        definitions =
            [todo, TableDefinition("Note", columns: [ColumnDefinition("body", .string)])] + more
        let file = folder + "/server-0.db"
        let server = try await Self.server(file, definitions, time)
        state = Mutex(State(transport: server.transport, file: file))
    }

    private static func server(
        _ file: String,
        _ tables: [TableDefinition],
        _ time: borrowing Mutex<Int64>
    ) async throws -> InProcessServer {
        let clock = Clock(start: time.withLock { $0 })
        var options = SQLiteTableStore.Options()
        options.inline = true
        options.now = { clock.next() }
        return try await InProcessServer(
            tables: tables,
            environment: ServerEnvironment(
                now: { clock.next() },
                makeID: ServerEnvironment.live.makeID
            ),
            store: try SQLiteTableStore(path: file, options: options)
        )
    }

    /// A clock that advances ten milliseconds with each read.
    private final class Clock: Sendable {
        private let time: Mutex<Int64>

        init(start: Int64) { time = Mutex(start) }

        func next() -> Int64 {
            time.withLock { time in
                time += 10_000
                return time
            }
        }
    }

    /// Copies the database.
    func backup() throws -> String {
        let (file, number) = state.withLock { state in
            state.count += 1
            return (state.file, state.count)
        }
        let copy = folder + "/backup-\(number).db"
        try Self.copy(file, to: copy)
        return copy
    }

    /// Continues with a backup, as after `tideline restore`, or with an empty database.
    func restore(_ backup: String?) async throws {
        let number = state.withLock { state in
            state.count += 1
            return state.count
        }
        let file = folder + "/server-\(number).db"
        if let backup {
            try Self.copy(backup, to: file)
            _ = try DatabaseMaintenance(path: file).renewEpoch()
        }
        // A restore happens hours after the lost writes.
        time.withLock { $0 += 3_600_000_000 }
        let server = try await Self.server(file, definitions, time)
        state.withLock { state in
            state.transport = server.transport
            state.file = file
        }
    }

    private static func copy(_ file: String, to copy: String) throws {
        for end in ["", "-wal"] where FileManager.default.fileExists(atPath: file + end) {
            try FileManager.default.copyItem(atPath: file + end, toPath: copy + end)
        }
    }

    /// The requests so far, as methods and paths.
    var sent: [String] {
        state.withLock { $0.sent.map { "\($0.method) \($0.url.path())" } }
    }

    func forgetSent() { state.withLock { $0.sent = [] } }

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        let transport = state.withLock { state in
            state.sent.append(request)
            return state.transport
        }
        return try await transport.send(request)
    }

    func stream(_ request: TransportRequest) async throws -> TransportStream {
        try await state.withLock { $0.transport }.stream(request)
    }
}

/// Runs a test with a server whose database is in a temporary folder.
func withRestorableServer<Result>(
    softDelete: Bool = true,
    conflict: ConflictRule = .reject,
    more: [TableDefinition] = [],
    _ body: (RestorableServer) async throws -> Result
) async throws -> Result {
    try await withTemporaryFile { file in
        let folder = (file as NSString).deletingLastPathComponent
        return try await body(
            try await RestorableServer(
                in: folder,
                softDelete: softDelete,
                conflict: conflict,
                more: more
            )
        )
    }
}
