// TwoPhones: a server with the tables of the example, and the phones of two technicians.

import Foundation
import Testing
import Tideline
import TidelineServer
import TidelineServerCore
import TidelineTestKit

@testable import FieldServiceModel

/// A server with the tables of `server.json`, and the phones of two technicians.
@MainActor
struct TwoPhones {
    let server: InProcessServer
    let anna: FieldService
    let ben: FieldService

    init() async throws {
        let server = try await InProcessServer(tables: Self.tables())
        func phone() async throws -> FieldService {
            try await FieldService.open(
                endpoint: server.endpoint,
                store: SQLiteStore(path: ":memory:"),
                transport: server.transport
            )
        }
        self.server = server
        (anna, ben) = (try await phone(), try await phone())
    }

    /// Returns the tables of `Examples/FieldService/server.json`.
    static func tables() throws -> [TableDefinition] {
        let root = URL(filePath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let file = root.appending(path: "Examples/FieldService/server.json")
        return try ServerConfiguration(json: Array(Data(contentsOf: file))).tables
    }

    /// Both phones are online for a moment: each sends its changes, and then fetches those of the other one.
    func sync() async {
        await anna.refresh()
        await ben.refresh()
        await anna.refresh()
    }
}

extension FieldService {
    /// Reads the content of a screen once.
    func read<Screen: Sendable>(
        _ screen: @escaping @Sendable (SyncReader) throws -> Screen
    ) async throws -> Screen {
        try await client.syncContext.read(screen)
    }

    /// Returns all records of a type, by id.
    func all<Record: SyncRecord>(_ type: Record.Type) async throws -> [Record] {
        try await client.syncTable(type).read().sorted { $0.id < $1.id }
    }
}

extension Customer {
    static let anker = Customer(id: "anker", number: "1", name: "anker", address: kiel)
    static let zeta = Customer(id: "zeta", number: "2", name: "zeta", address: kiel)
    static let aerzte = Customer(id: "aerzte", number: "3", name: "Ärzte am Markt")

    private static let kiel = Address(street: "Holtenauer Straße 1", city: "Kiel")
}

/// Returns a time on the day of the tests.
func at(_ hour: Int) -> Date { Date(timeIntervalSince1970: Double(20_000 * 86_400 + hour * 3600)) }
