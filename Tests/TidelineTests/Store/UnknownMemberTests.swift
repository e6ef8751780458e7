// Members of a row that the record type does not have cost nothing, and are read if the type asks for them.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct UnknownMemberTests {
    private let transport = ScriptedTransport()

    /// A record that has a secret only if it is locked, so that its columns do not include the secret.
    private struct Box: SyncRecord {
        static let tableName = "Box"

        var id = ""
        var isLocked = false
        var rank = 0
        var secret: String?

        private enum CodingKeys: String, CodingKey {
            case id, isLocked, rank, secret
        }

        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            id = try container.decode(String.self, forKey: .id)
            isLocked = try container.decode(Bool.self, forKey: .isLocked)
            rank = try container.decode(Int.self, forKey: .rank)
            if isLocked { secret = try container.decodeIfPresent(String.self, forKey: .secret) }
        }

        init() {}

        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(id, forKey: .id)
            try container.encode(isLocked, forKey: .isLocked)
            try container.encode(rank, forKey: .rank)
        }
    }

    private func boxes(
        _ rows: String...,
        inMemory: Bool
    ) async throws -> SyncTable<Box> {
        let store: any LocalStore =
            inMemory ? MemoryStore() : try SQLiteStore(path: ":memory:", inline: true)
        let device = try await Device(transport, store: store, tables: [Box.self])
        let table = try device.client.syncTable(Box.self)
        transport.add(page(rows))
        try await table.pull(queryID: "all")
        return table
    }

    @Test("A member that the type decodes only in some rows is read", arguments: [true, false])
    func sometimes(inMemory: Bool) async throws {
        let table = try await boxes(
            #"{"id":"a","version":"1","updatedAt":"2026-01-01T00:00:00Z","isLocked":true,"rank":1,"#
                + #""secret":"x","other":{"deep":[1]}}"#,
            #"{"id":"b","version":"1","updatedAt":"2026-01-01T00:00:00Z","isLocked":false,"rank":2,"#
                + #""secret":"y"}"#,
            #"{"id":"c","version":"1","updatedAt":"2026-01-01T00:00:00Z","isLocked":true,"#
                + #""rank":3}"#,
            inMemory: inMemory
        )
        let found = try await table.read(sortedBy: [.ascending(\.rank)])
        #expect(found.map(\.secret) == ["x", nil, nil])
        #expect(found.map(\.rank) == [1, 2, 3])
        // An update keeps what the type does not have.
        try await table.update(id: "a") { $0.rank = 9 }
        #expect(try await table.read(where: { $0.rank == 9 }).map(\.secret) == ["x"])
    }

    @Test(
        "A value that does not fit its column is reported if the row also has unknown members",
        arguments: [true, false]
    )
    func misfit(inMemory: Bool) async throws {
        let table = try await boxes(
            #"{"id":"a","version":"1","updatedAt":"2026-01-01T00:00:00Z","isLocked":true,"#
                + #""rank":"first","note":"rank"}"#,
            #"{"id":"b","version":"1","updatedAt":"2026-01-01T00:00:00Z","isLocked":true,"#
                + #""rank":null,"note":"\"rank\":5"}"#,
            inMemory: inMemory
        )
        let error = await #expect(throws: SyncError.self) { _ = try await table.read() }
        #expect(error?.code == .rowDoesNotFit)
        #expect((error?.cause as? DecodingFailure)?.column == "rank")
        let found = try await table.read(onDecodingFailure: .skip)
        #expect(found.map(\.id) == ["b"])
        #expect(found.map(\.rank) == [0])
    }
}
