// ScenarioTests: common operations of devices with a server, against all backends.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineTestKit

struct ScenarioTests {
    @Test(
        "An insert, update, delete and undelete reach the other device",
        arguments: BackendKind.allCases
    )
    func insertUpdateDeleteUndelete(through kind: BackendKind) async throws {
        try await withBackend(kind) { backend in
            let (one, two) = (try await backend.device(), try await backend.device())
            let note = try await one.notes.insert(Note(text: "Buy milk", rank: 3))
            #expect(try await one.context.push().completed == 1)
            #expect(try await two.sync().applied == 1)
            #expect(try await two.text(note.id) == "Buy milk")

            try await two.notes.update(id: note.id) { $0.text = "Buy oat milk" }
            try await two.context.push()
            try await one.sync()
            #expect(try await one.text(note.id) == "Buy oat milk")
            #expect(try await one.notes.read(id: note.id)?.rank == 3)

            try await one.notes.delete(id: note.id)
            try await one.context.push()
            #expect(try await two.sync().removed == 1)
            #expect(try await two.notes.count() == 0)
            #expect(try await two.client.table(Note.self).read(id: note.id) == nil)

            let back = try await two.client.table(Note.self).undelete(id: note.id)
            #expect(back.text == "Buy oat milk")
            try await one.sync()
            try await two.sync()
            #expect(try await one.text(note.id) == "Buy oat milk")
            try await expectAgreement(one, two)
        }
    }

    @Test(
        "A row that was deleted and inserted again reaches the other device",
        arguments: BackendKind.allCases,
        [true, false]
    )
    func deletedAndInsertedAgain(through kind: BackendKind, pushesBetween: Bool) async throws {
        try await withBackend(kind) { backend in
            let (one, two) = (try await backend.device(), try await backend.device())
            try await one.notes.insert(Note(id: "a", text: "first", rank: 1))
            try await one.sync()
            try await two.sync()
            try await one.notes.delete(id: "a")
            if pushesBetween { try await one.sync() }
            try await one.notes.insert(Note(id: "a", text: "second"))
            try await one.sync()
            try await two.sync()
            #expect(try await two.text("a") == "second")
            #expect(try await two.notes.read(id: "a")?.rank == nil)
            try await expectAgreement(one, two)
        }
    }

    @Test("A second pull reads only the changes", arguments: BackendKind.allCases)
    func pullIsIncremental(through kind: BackendKind) async throws {
        try await withBackend(kind) { backend in
            let (one, two) = (try await backend.device(), try await backend.device())
            for number in 0..<30 { try await one.notes.insert(Note(id: "n\(number)")) }
            try await one.sync()
            #expect(try await two.sync().applied == 30)
            let again = try await two.sync()
            #expect(again.requests == 1)
            // The rows in the cursor's own millisecond are returned again.
            #expect(again.applied <= 5)

            try await one.notes.update(id: "n3") { $0.text = "changed" }
            try await one.notes.delete(id: "n4")
            try await one.notes.insert(Note(id: "new"))
            try await one.context.push()
            let news = try await two.sync()
            #expect(news.requests == 1)
            #expect((2...7).contains(news.applied))
            #expect(news.removed == 1)
            try await one.sync()
            try await expectAgreement(one, two)
        }
    }

    @Test(
        "A new device does not get tombstones, and other devices remove the deleted rows",
        arguments: BackendKind.allCases
    )
    func tombstones(through kind: BackendKind) async throws {
        try await withBackend(kind) { backend in
            let (one, two) = (try await backend.device(), try await backend.device())
            for number in 0..<5 { try await one.notes.insert(Note(id: "n\(number)")) }
            try await one.sync()
            try await two.sync()
            for number in 0..<4 { try await one.notes.delete(id: "n\(number)") }
            try await one.sync()
            let fresh = try await backend.device()
            let first = try await fresh.sync()
            #expect(first.applied == 1)
            #expect(first.removed == 0)
            #expect(try await two.sync().removed == 4)
            try await expectAgreement(one, two, fresh)
            let deleted = try await backend.wire.allRows("Note").filter {
                $0["deleted"] as? Bool == true
            }
            #expect(deleted.count == 4)
        }
    }

    @Test(
        "A delete of a row that another device already deleted is not a conflict",
        arguments: BackendKind.allCases
    )
    func deleteMeetsDelete(through kind: BackendKind) async throws {
        try await withBackend(kind) { backend in
            let (one, two) = (try await backend.device(), try await backend.device())
            try await one.notes.insert(Note(id: "a"))
            try await one.sync()
            try await two.sync()
            try await one.notes.delete(id: "a")
            try await two.notes.delete(id: "a")
            try await one.sync()
            try await two.sync()
            try await expectAgreement(one, two)
        }
    }

    @Test(
        "Three devices with edits, pulls and pushes in random order converge",
        arguments: BackendKind.allCases,
        RandomSeeds.all
    )
    func devicesConverge(through kind: BackendKind, seed: UInt64) async throws {
        var random = SeededGenerator(seed: seed)
        try await withBackend(kind) { backend in
            let devices = [
                try await backend.device(.clientWins), try await backend.device(.serverWins),
                try await backend.device(.clientWins),
            ]
            for step in 0..<120 {
                let device = random.pick(devices)
                let id = "n\(random.below(12))"
                switch random.below(8) {
                case 0...3:
                    if try await device.notes.read(id: id) == nil {
                        try await device.notes.insert(Note(id: id, text: "\(step)"))
                    } else {
                        try await device.notes.update(id: id) { $0.text = "\(step)" }
                    }
                case 4: try await device.notes.delete(id: id)
                case 5: try await device.context.push()
                default: try await device.sync()
                }
            }
            for device in devices + devices { try await device.sync() }
            try await expectAgreement(devices[0], devices[1], devices[2])
        }
    }

    @Test(
        "Two devices that edit and sync at the same time converge",
        arguments: BackendKind.allCases
    )
    func devicesSyncAtTheSameTime(through kind: BackendKind) async throws {
        try await withBackend(kind) { backend in
            let devices = [
                try await backend.device(.clientWins), try await backend.device(.clientWins),
            ]
            await withTaskGroup { group in
                for (number, device) in devices.enumerated() {
                    group.addTask {
                        await #expect(throws: Never.self) {
                            for step in 0..<40 {
                                try await device.notes.insert(Note(id: "\(number)-\(step)"))
                                let other = "\(1 - number)-\(step / 2)"
                                if try await device.notes.read(id: other) != nil {
                                    try await device.notes.update(id: other) { $0.rank = step }
                                }
                                if step % 3 == 0 { try await device.sync() }
                            }
                        }
                    }
                }
            }
            for device in devices + devices { try await device.sync() }
            try await expectAgreement(devices[0], devices[1])
            #expect(try await devices[0].notes.count() == 80)
        }
    }
}
