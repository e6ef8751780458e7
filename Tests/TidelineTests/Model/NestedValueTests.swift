// Nested values: an app that knows fewer members than another one changes its own members and keeps the rest, on the
// device, in requests, and in conflicts.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct NestedValueTests {
    /// The model of version 1.
    private struct One: SyncRecord, Hashable {
        static let tableName = "Contact"
        struct Address: Codable, Hashable {
            var city = ""
            var zip: String?
            var geo: Geo?
        }
        struct Geo: Codable, Hashable { var lat = 0.0 }
        struct Phone: Codable, Hashable { var number = "" }
        enum Plan: Codable, Hashable {
            case free
            case paid(price: Int)
        }
        var id = ""
        var name = ""
        var address: Address?
        var phones: [Phone] = []
        var labels: [String: String] = [:]
        var plan: Plan?
        var updatedAt: Date?
    }

    /// The model of version 2: each nested value has more members.
    private struct Two: SyncRecord, Hashable {
        static let tableName = "Contact"
        struct Address: Codable, Hashable {
            var city = ""
            var country = ""
            var zip: String?
            var geo: Geo?
        }
        struct Geo: Codable, Hashable { var lat = 0.0, lon = 0.0 }
        struct Phone: Codable, Hashable { var number = "", kind = "" }
        var id = ""
        var name = ""
        var address: Address?
        var phones: [Phone] = []
        var labels: [String: String] = [:]
        var updatedAt: Date?
    }

    private let server: InProcessServer
    private let start = Two(
        id: "a",
        name: "Ann",
        address: Two.Address(
            city: "Bern",
            country: "CH",
            zip: "3000",
            geo: Two.Geo(lat: 1, lon: 2)
        ),
        phones: [
            Two.Phone(number: "1", kind: "home"), Two.Phone(number: "2", kind: "work"),
            Two.Phone(number: "3", kind: "car"),
        ],
        labels: ["x": "1", "y": "2"]
    )

    init() async throws { server = try await Self.server(.reject) }

    private static func server(_ conflict: ConflictRule) async throws -> InProcessServer {
        try await InProcessServer(tables: [
            TableDefinition(
                "Contact",
                columns: [
                    ColumnDefinition("name", .string), ColumnDefinition("address", .json),
                    ColumnDefinition("phones", .json), ColumnDefinition("labels", .json),
                    ColumnDefinition("plan", .json),
                ],
                conflict: conflict
            )
        ])
    }

    private func device(
        _ model: any SyncRecord.Type,
        _ policy: ConflictPolicy = .fail,
        _ server: InProcessServer? = nil
    ) async throws -> Device {
        try await Device((server ?? self.server).transport, conflicts: policy, tables: [model])
    }

    /// A device of version 1 that has pulled the row.
    private func first(_ policy: ConflictPolicy = .fail) async throws -> Device {
        try await device(Two.self).client.table(Two.self).insert(start)
        let device = try await device(One.self, policy)
        try await device.client.syncTable(One.self).pull(queryID: "all")
        return device
    }

    private func serverRecord() async throws -> Two {
        let row = try await device(Two.self).client.table(Two.self).read(id: "a")
        var found = try #require(row)
        found.updatedAt = nil
        return found
    }

    @Test("An update keeps members that the model does not know", arguments: [true, false])
    func updates(inOneStep: Bool) async throws {
        let device = try await first()
        let table = try device.client.syncTable(One.self)
        func edit(_ change: (inout One) throws -> Void) async throws {
            if inOneStep {
                try await table.update(id: "a", change)
            } else {
                var copy = try #require(try await table.read(id: "a"))
                try change(&copy)
                try await table.update(copy)
            }
        }
        try await edit {
            $0.address?.city = "Basel"
            $0.address?.geo?.lat = 7
        }
        try await edit {
            $0.address?.zip = nil
            $0.labels["x"] = nil
            $0.labels["z"] = "3"
            $0.phones.remove(at: 0)
        }
        try await edit { $0.phones[0].number = "22" }
        var wanted = start
        wanted.address?.city = "Basel"
        wanted.address?.geo?.lat = 7
        wanted.address?.zip = nil
        wanted.labels = ["y": "2", "z": "3"]
        wanted.phones = [
            Two.Phone(number: "22", kind: "work"), Two.Phone(number: "3", kind: "car"),
        ]
        let local = try #require(try await device.rows("Contact").first).decode(Two.self)
        #expect(local.address == wanted.address && local.labels == wanted.labels)
        #expect(try await device.push() == nil)
        let found = try await serverRecord()
        #expect(found.address == wanted.address)
        #expect(found.labels == wanted.labels)
        #expect(found.phones == wanted.phones)
        try await edit { $0.address = nil }
        #expect(try await device.push() == nil)
        #expect(try await serverRecord().address == nil)
    }

    @Test("Array elements keep their unknown members when elements are edited or moved")
    func arrays() async throws {
        let device = try await first()
        let table = try device.client.syncTable(One.self)
        try await table.update(id: "a") { $0.phones[1].number = "22" }
        try await table.update(id: "a") { $0.phones.swapAt(0, 2) }
        try await table.update(id: "a") { $0.phones.append(One.Phone(number: "4")) }
        #expect(try await device.push() == nil)
        let row = try #require(
            try await self.device(One.self).client.table(named: "Contact").read(id: "a")
        )
        let phones = row["phones"]?.asJSONText
        #expect(
            phones
                == #"[{"kind":"car","number":"3"},{"kind":"work","number":"22"},"#
                + #"{"kind":"home","number":"1"},{"number":"4"}]"#
        )
    }

    @Test("A struct that is saved repeatedly keeps the members that its model does not know")
    func savedAgain() async throws {
        let device = try await first()
        let table = try device.client.syncTable(One.self)
        var copy = try #require(try await table.read(id: "a"))
        for city in ["Basel", "Chur", "Thun"] {
            copy.address?.city = city
            try await table.update(copy)
            #expect(try await device.push() == nil)
        }
        try await table.update(id: "a") { $0.address?.zip = "1" }
        #expect(try await device.push() == nil)
        copy.name = "Anna"
        try await table.update(copy)
        #expect(try await device.push() == nil)
        var wanted = start
        wanted.name = "Anna"
        wanted.address?.city = "Thun"
        wanted.address?.zip = "1"
        #expect(try await serverRecord() == wanted)
    }

    @Test(
        "Changes of two members of one object on two devices are combined",
        arguments: [true, false]
    )
    func concurrent(clientWins: Bool) async throws {
        let device = try await first(clientWins ? .clientWins : .merge)
        let remote = try await self.device(Two.self).client.table(Two.self)
        try await remote.update(id: "a") { $0.address?.country = "DE" }
        try await device.client.syncTable(One.self).update(id: "a") { $0.address?.city = "Bonn" }
        #expect(try await device.push() == nil)
        var wanted = start
        wanted.address?.country = "DE"
        wanted.address?.city = "Bonn"
        #expect(try await serverRecord() == wanted)
        let local = try #require(try await device.rows("Contact").first).decode(Two.self)
        #expect(local.address == wanted.address)
    }

    @Test(
        "A change of the same member on both sides is a conflict, and enum cases are not mixed"
    )
    func contested() async throws {
        let device = try await first(.merge)
        let remote = try await self.device(One.self).client.table(One.self)
        try await remote.update(id: "a") { $0.plan = .free }
        try await device.client.syncTable(One.self).pull(queryID: "all")
        try await remote.update(id: "a") { $0.plan = .paid(price: 1) }
        try await device.client.syncTable(One.self).update(id: "a") { $0.address?.city = "Bonn" }
        #expect(try await device.push() == nil)
        try await remote.update(id: "a") { $0.address?.city = "Rome" }
        try await device.client.syncTable(One.self).update(id: "a") { $0.address?.city = "Oslo" }
        let error = try #require(try await device.push()?.errors.first)
        #expect(error.differingColumns == ["address"])
        // The app decides with a record of its model.
        var item = try #require(try error.serverItem?.decode(One.self))
        item.address?.city = "Nice"
        try await error.updateOperationAndRetry(with: item)
        #expect(try await device.push() == nil)
        #expect(try await serverRecord().address?.country == "CH")
        #expect(try await serverRecord().address?.city == "Nice")
    }

    @Test("A conflict handler's row keeps the members that the model does not know")
    func custom() async throws {
        let device = try await first(
            .custom { conflict in
                guard var mine = try conflict.server?.decode(One.self) else { return .fail }
                mine.address?.city = "Wien"
                return .write(try Row(mine))
            }
        )
        let remote = try await self.device(Two.self).client.table(Two.self)
        try await remote.update(id: "a") { $0.address?.city = "Rome" }
        try await device.client.syncTable(One.self).update(id: "a") { $0.address?.city = "Oslo" }
        #expect(try await device.push() == nil)
        #expect(try await serverRecord().address?.country == "CH")
        #expect(try await serverRecord().address?.city == "Wien")
    }

    @Test("A remote update keeps members that the model does not know", arguments: [true, false])
    func remote(inOneStep: Bool) async throws {
        _ = try await first()
        let table = try await device(One.self).client.table(One.self)
        if inOneStep {
            try await table.update(id: "a") { $0.address?.city = "Bonn" }
        } else {
            var copy = try #require(try await table.read(id: "a"))
            copy.address?.city = "Bonn"
            try await table.update(copy)
        }
        var wanted = start
        wanted.address?.city = "Bonn"
        #expect(try await serverRecord() == wanted)
    }

    @Test("A transaction keeps unknown members and its other writes to the row")
    func transaction() async throws {
        let device = try await first()
        try await device.context.transaction { transaction in
            let table = try transaction.table(One.self)
            try table.update(id: "a") { item in
                item.address?.city = "Bonn"
                try table.update(id: "a") { $0.address?.zip = "5" }
            }
            var copy = try #require(try table.read(id: "a"))
            copy.address?.geo?.lat = 9
            try table.update(copy)
        }
        #expect(try await device.push() == nil)
        var wanted = start
        wanted.address?.city = "Bonn"
        wanted.address?.zip = "5"
        wanted.address?.geo?.lat = 9
        #expect(try await serverRecord() == wanted)
    }

    @Test("A server that merges combines members as the client does")
    func serverMerges() async throws {
        let server = try await Self.server(.merge)
        let one = try await device(One.self, .fail, server)
        let two = try await device(Two.self, .fail, server)
        try await two.client.table(Two.self).insert(start)
        try await one.client.syncTable(One.self).pull(queryID: "all")
        try await two.client.table(Two.self).update(id: "a") { $0.address?.country = "DE" }
        try await one.client.syncTable(One.self).update(id: "a") { $0.address?.city = "Bonn" }
        #expect(try await one.push() == nil)
        let found = try #require(try await two.client.table(Two.self).read(id: "a"))
        #expect(found.address?.city == "Bonn" && found.address?.country == "DE")
    }
}

extension Value {
    fileprivate var asJSONText: String? {
        if case .json(let json) = self { json.text } else { nil }
    }
}
