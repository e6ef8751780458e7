// The action that sends the changes of this device on top of the server's row.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct KeepMineTests {
    /// Returns the error of a note that both devices have changed.
    private func conflict(
        _ change: (SyncTable<Row>) async throws -> Void
    ) async throws -> (
        FieldScene, TableOperationError
    ) {
        let scene = try await FieldScene()
        try await scene.fill()
        try await scene.other.client.syncTable(Field.Note.self).update(id: "n") {
            $0.customerID = nil
        }
        #expect(try await scene.other.push() == nil)
        try await change(try scene.device.client.syncTable(named: "Note"))
        _ = try await scene.device.push()
        return (scene, try #require(try await scene.device.context.operationErrors().first))
    }

    @Test("The device's version of a conflict sends only the columns that it changed")
    func changed() async throws {
        let (scene, error) = try await conflict { notes in
            _ = try await notes.update(id: "n") { $0["text"] = "Key is lost" }
        }
        #expect(error.serverItem?["customerID"] == .null)
        #expect(!error.isConsequence)
        try await error.keepMine()
        #expect(try await scene.device.push() == nil)
        let note = try await scene.other.client.table(Field.Note.self).read(id: "n")
        #expect(note == Field.Note(id: "n", text: "Key is lost", customerID: nil))
    }

    @Test("The device's version of a change to an older record sends all columns")
    func older() async throws {
        let (scene, error) = try await conflict { notes in
            guard var old = try await notes.read(id: "n") else { return }
            old["text"] = "Key is lost"
            _ = try await notes.pull(queryID: "all")
            _ = try await notes.update(old)
        }
        try await error.keepMine()
        #expect(try await scene.device.push() == nil)
        let note = try await scene.other.client.table(Field.Note.self).read(id: "n")
        #expect(note == Field.Note(id: "n", text: "Key is lost", customerID: "c"))
    }

    @Test("The device's version of a conflict restores a row that the server deleted")
    func deleted() async throws {
        let scene = try await FieldScene()
        try await scene.fill()
        try await scene.other.client.syncTable(Field.Note.self).delete(id: "n")
        #expect(try await scene.other.push() == nil)
        try await scene.device.client.syncTable(Field.Note.self).update(id: "n") {
            $0.text = "Key is lost"
        }
        let error = try #require(try await scene.device.push()?.errors.first)
        #expect(error.serverCopy == .deleted)
        try await error.keepMine()
        #expect(try await scene.device.push() == nil)
        let note = try await scene.other.client.table(Field.Note.self).read(id: "n")
        #expect(note == Field.Note(id: "n", text: "Key is lost", customerID: "c"))
    }
}
