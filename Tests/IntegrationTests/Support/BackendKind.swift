// BackendKind: the ways to reach a server, ours or an imitation of an original one, so that a test covers all of them.

import Foundation
import Testing
import Tideline
import TidelineServer
import TidelineTestKit

enum BackendKind: String, CaseIterable, Sendable {
    /// The handler and its tables in this process.
    case inProcess
    /// The built program, over loopback and libcurl.
    case socket
    /// The handler in this process, for a client that uses the 2.x protocol.
    case classic
    /// A server that responds like the original Node server.
    case node
    /// A server that responds like the original .NET server.
    case dotNet

    /// The ways to reach this project's server, for features that the originals lack: integers beyond 2^53, limits
    /// for rows and texts.
    static let ours: [BackendKind] = [.inProcess, .socket, .classic]

    /// The status of a change to a deleted row.
    var goneStatus: Int { self == .inProcess || self == .socket ? 410 : 404 }
}

struct Note: SyncRecord, Equatable {
    var id = UUID().uuidString.lowercased()
    var text: String?
    var done = false
    var rank: Int?
    var weight: Double?
    var due: Date?
    var version: String?
}

/// A server that is reached in one of these ways.
struct Backend: Sendable {
    let endpoint: URL
    let transport: any Transport
    var generation = ServerGeneration.automatic
    /// Requests that tests send themselves use the first generation.
    var isClassic = false

    /// A new device with an empty store.
    func device(
        _ conflicts: ConflictPolicy = .fail,
        store: (any LocalStore)? = nil,
        through transport: (any Transport)? = nil
    ) async throws -> Device {
        try await Device(
            endpoint,
            transport ?? self.transport,
            store ?? SQLiteStore(path: ":memory:"),
            conflicts,
            generation
        )
    }

    var wire: Wire { Wire(endpoint: endpoint, transport: transport, isClassic: isClassic) }
}

func withBackend(_ kind: BackendKind, _ body: (Backend) async throws -> Void) async throws {
    switch kind {
    case .inProcess, .classic:
        let configuration = try ServerConfiguration(json: Array(ServerProcess.configuration.utf8))
        let server = try await InProcessServer(tables: configuration.tables)
        let isClassic = kind == .classic
        try await body(
            Backend(
                endpoint: server.endpoint,
                transport: server.transport,
                generation: isClassic ? .classic : .automatic,
                isClassic: isClassic
            )
        )
    case .node, .dotNet:
        let server = OriginalServer(
            kind == .node ? .node : .dotNet,
            tables: [
                .init("TodoItem", columns: ["text": .string, "complete": .boolean]),
                .init(
                    "Note",
                    columns: [
                        "text": .string, "done": .boolean, "rank": .number, "weight": .number,
                        "due": .dateTime,
                    ]
                ),
            ]
        )
        try await body(
            Backend(endpoint: server.endpoint, transport: server, isClassic: true)
        )
    case .socket:
        try await withWorkspace { workspace in
            let server = try await ServerProcess.start(in: workspace)
            try await body(Backend(endpoint: server.url, transport: CurlTransport()))
            let end = try await server.stop()
            #expect(end == .exit(0))
        }
    }
}

struct Device: Sendable {
    let client: SyncClient
    let notes: SyncTable<Note>

    var context: SyncContext { client.syncContext }

    init(
        _ endpoint: URL,
        _ transport: any Transport,
        _ store: any LocalStore,
        _ conflicts: ConflictPolicy = .fail,
        _ generation: ServerGeneration = .automatic
    ) async throws {
        // Small pages, so that a few rows make many pages.
        var limits = SyncLimits()
        limits.pageRowsMax = 40
        client = SyncClient(
            endpoint: endpoint,
            generation: generation,
            transport: transport,
            limits: limits
        )
        try await client.syncContext.initialize(
            store: store,
            tables: [Note.self],
            conflicts: conflicts
        )
        notes = try client.syncTable(Note.self)
    }

    /// Pushes and pulls.
    @discardableResult
    func sync() async throws -> PullResult { try await notes.pull(queryID: "all") }

    func text(_ id: String) async throws -> String? { try await notes.read(id: id)?.text }

    /// The rows of the device.
    func rows() async throws -> [[UInt8]: Row] {
        Self.keyed(try await client.syncTable(named: Note.tableName).read())
    }

    /// The rows of the server, as this device reads them.
    func serverRows() async throws -> [[UInt8]: Row] {
        Self.keyed(try await client.table(named: Note.tableName).read())
    }

    /// Sorted by the bytes of the id: Swift considers some different strings equal.
    private static func keyed(_ rows: [Row]) -> [[UInt8]: Row] {
        var result: [[UInt8]: Row] = [:]
        for var row in rows {
            row["deleted"] = nil
            let previous = result.updateValue(row, forKey: Array(row.id.utf8))
            #expect(previous == nil, "row '\(row.id)' comes twice")
        }
        return result
    }
}

/// Every device has exactly the server's rows, and no pending operations.
func expectAgreement(
    _ devices: Device...,
    sourceLocation: SourceLocation = #_sourceLocation
) async throws {
    guard let first = devices.first else { return }
    let server = try await first.serverRows()
    for device in devices {
        let rows = try await device.rows()
        let pending = try await device.context.pendingOperationCount
        let errors = try await device.context.operationErrors()
        #expect(rows == server, sourceLocation: sourceLocation)
        #expect(pending == 0, sourceLocation: sourceLocation)
        #expect(errors.isEmpty, sourceLocation: sourceLocation)
    }
}
