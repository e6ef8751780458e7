// ConflictTests: two devices change the same row, under each policy, against all backends.

import Foundation
import Testing
import Tideline
import TidelineServer
import TidelineTestKit

struct ConflictTests {
    static let policies: [ConflictPolicy] = [.fail, .serverWins, .clientWins]

    /// Two devices that have the row "a"; the second has the policy.
    private func withTwo(
        _ backendKind: BackendKind,
        _ policy: ConflictPolicy,
        _ body: (Device, Device) async throws -> Void
    ) async throws {
        try await withBackend(backendKind) { backend in
            let (one, two) = (try await backend.device(), try await backend.device(policy))
            try await one.notes.insert(Note(id: "a", text: "base", rank: 1))
            try await one.sync()
            try await two.sync()
            try await body(one, two)
            try await one.sync()
            try await two.sync()
            try await expectAgreement(one, two)
        }
    }

    private func rejection(_ device: Device) async throws -> TableOperationError {
        let error = await #expect(throws: PushError.self) { try await device.context.push() }
        #expect(error?.status == .operationErrors)
        #expect(error?.errors.count == 1)
        #expect(try await device.context.pendingOperationCount == 1)
        // A pull continues, and does not change the row.
        try await device.sync()
        return try #require(try await device.context.operationErrors().first)
    }

    enum Action: CaseIterable, Sendable { case discard, retry, update }

    @Test(
        "A conflict between two edits is resolved by each action on its error",
        arguments: BackendKind.allCases,
        Action.allCases
    )
    func editMeetsEdit(through backendKind: BackendKind, settledBy action: Action) async throws {
        try await withTwo(backendKind, .fail) { one, two in
            try await one.notes.update(id: "a") { $0.text = "one" }
            try await one.context.push()
            try await two.notes.update(id: "a") { $0.text = "two" }
            let error = try await rejection(two)
            #expect(error.statusCode == 412)
            #expect(error.kind == .update)
            #expect(error.item?["text"] == "two")
            #expect(error.serverItem?["text"] == "one")
            #expect(try await two.text("a") == "two")
            switch action {
            case .discard:
                try await error.cancelOperationAndDiscardItem()
                #expect(try await two.text("a") == "one")
            case .retry:
                var mine = try #require(error.item)
                mine["text"] = "merged"
                try await error.updateOperationAndRetry(with: mine)
                try await two.context.push()
                try await one.sync()
                #expect(try await one.text("a") == "merged")
            case .update:
                try await error.cancelOperationAndUpdateItem(try #require(error.serverItem))
                #expect(try await two.text("a") == "one")
            }
            await #expect(throws: SyncError.self) {
                try await error.cancelOperationAndDiscardItem()
            }
        }
    }

    @Test(
        "A conflict between two edits is resolved by the policy of the device",
        arguments: BackendKind.allCases,
        [ConflictPolicy.serverWins, .clientWins]
    )
    func editMeetsEdit(through backendKind: BackendKind, under policy: ConflictPolicy) async throws
    {
        try await withTwo(backendKind, policy) { one, two in
            try await one.notes.update(id: "a") { $0.text = "one" }
            try await one.context.push()
            try await two.notes.update(id: "a") { $0.text = "two" }
            try await two.context.push()
            try await one.sync()
            #expect(try await one.text("a") == (policy == .serverWins ? "one" : "two"))
        }
    }

    @Test(
        "An edit of a row that another device deleted is resolved by the policy",
        arguments: BackendKind.allCases,
        policies
    )
    func editMeetsDelete(
        through backendKind: BackendKind,
        under policy: ConflictPolicy
    ) async throws {
        try await withTwo(backendKind, policy) { one, two in
            try await one.notes.delete(id: "a")
            try await one.context.push()
            try await two.notes.update(id: "a") { $0.text = "two" }
            if policy == .fail {
                let error = try await rejection(two)
                #expect(error.statusCode == backendKind.goneStatus)
                #expect(error.serverItem == nil)
                try await error.cancelOperationAndDiscardItem()
            } else {
                try await two.context.push()
            }
            try await one.sync()
            #expect(try await one.text("a") == (policy == .clientWins ? "two" : nil))
            if policy == .clientWins { #expect(try await one.notes.read(id: "a")?.rank == 1) }
        }
    }

    @Test(
        "An edit of a row that another device deleted can be sent again",
        arguments: BackendKind.allCases
    )
    func editMeetsDeleteAndIsSentAgain(through backendKind: BackendKind) async throws {
        try await withTwo(backendKind, .fail) { one, two in
            try await one.notes.delete(id: "a")
            try await one.context.push()
            try await two.notes.update(id: "a") { $0.text = "two" }
            let error = try await rejection(two)
            try await error.updateOperationAndRetry(with: try #require(error.item))
            try await two.context.push()
            try await one.sync()
            #expect(try await one.text("a") == "two")
        }
    }

    @Test(
        "A delete of a row that another device edited is resolved by the policy",
        arguments: BackendKind.allCases,
        policies
    )
    func deleteMeetsEdit(
        through backendKind: BackendKind,
        under policy: ConflictPolicy
    ) async throws {
        try await withTwo(backendKind, policy) { one, two in
            try await one.notes.update(id: "a") { $0.text = "one" }
            try await one.context.push()
            try await two.notes.delete(id: "a")
            if policy == .fail {
                let error = try await rejection(two)
                #expect(error.statusCode == 412)
                #expect(error.serverItem?["text"] == "one")
                #expect(try await two.notes.read(id: "a") == nil)
                try await error.cancelOperationAndDiscardItem()
            } else {
                try await two.context.push()
            }
            try await two.sync()
            #expect(try await two.text("a") == (policy == .clientWins ? nil : "one"))
        }
    }

    @Test(
        "An insert of an ID that another device inserted is resolved by the policy",
        arguments: BackendKind.allCases,
        policies
    )
    func insertMeetsInsert(
        through backendKind: BackendKind,
        under policy: ConflictPolicy
    ) async throws {
        try await withTwo(backendKind, policy) { one, two in
            try await one.notes.insert(Note(id: "b", text: "one", rank: 7))
            try await one.context.push()
            try await two.notes.insert(Note(id: "b", text: "two"))
            if policy == .fail {
                let error = try await rejection(two)
                #expect(error.statusCode == 409)
                #expect(error.kind == .insert)
                #expect(error.serverItem?["text"] == "one")
                try await error.cancelOperationAndDiscardItem()
            } else {
                try await two.context.push()
            }
            try await one.sync()
            #expect(try await one.text("b") == (policy == .clientWins ? "two" : "one"))
        }
    }

    @Test("A conflict delays only its own row", arguments: BackendKind.allCases)
    func otherRowsContinue(through backendKind: BackendKind) async throws {
        try await withTwo(backendKind, .fail) { one, two in
            try await one.notes.update(id: "a") { $0.text = "one" }
            try await one.context.push()
            try await two.notes.update(id: "a") { $0.text = "two" }
            for number in 0..<5 { try await two.notes.insert(Note(id: "n\(number)")) }
            let error = try await rejection(two)
            try await one.sync()
            #expect(try await one.notes.count() == 6)
            // An edit of the row unparks it, and conflicts again.
            try await two.notes.update(id: "a") { $0.text = "two again" }
            let second = try await rejection(two)
            #expect(second.id != error.id)
            #expect(second.item?["text"] == "two again")
            try await second.cancelOperationAndDiscardItem()
        }
    }

    /// A server whose tables resolve conflicts by a rule, and the backends through which devices reach it.
    private func backend(settling rule: ConflictRule) async throws -> Backend {
        var tables = try ServerConfiguration(json: Array(ServerProcess.configuration.utf8)).tables
        for place in tables.indices { tables[place].conflict = rule }
        let server = try await InProcessServer(tables: tables)
        return Backend(endpoint: server.endpoint, transport: server.transport)
    }

    @Test(
        "A late edit gets the result of the server's conflict rule",
        arguments: [ConflictRule.serverWins, .clientWins]
    )
    func theServerResolves(by rule: ConflictRule) async throws {
        let backend = try await backend(settling: rule)
        let (one, two) = (try await backend.device(), try await backend.device())
        try await one.notes.insert(Note(id: "a", text: "base", rank: 1))
        try await one.sync()
        try await two.sync()
        try await one.notes.update(id: "a") { $0.text = "one" }
        try await one.context.push()
        try await two.notes.update(id: "a") {
            $0.text = "two"
            $0.rank = 2
        }
        try await two.context.push()
        // Already before the next pull.
        let settled = try #require(try await two.notes.read(id: "a"))
        let wins = rule == .clientWins
        #expect(settled.text == (wins ? "two" : "one") && settled.rank == (wins ? 2 : 1))
        #expect(try await two.context.pendingOperationCount == 0)
        #expect(try await two.rows() == two.serverRows())
        // Its base version is the new state: the next edit conflicts with nothing.
        try await two.notes.update(id: "a") { $0.text = "later" }
        try await two.context.push()
        try await one.sync()
        try await two.sync()
        #expect(try await one.text("a") == "later")
        try await expectAgreement(one, two)
    }

    @Test(
        "A late delete is accepted if the client wins and rejected if the server wins",
        arguments: [ConflictRule.serverWins, .clientWins]
    )
    func theServerResolvesDeletes(by rule: ConflictRule) async throws {
        let backend = try await backend(settling: rule)
        let (one, two) = (try await backend.device(), try await backend.device())
        try await one.notes.insert(Note(id: "a", text: "base", rank: 1))
        try await one.sync()
        try await two.sync()
        try await one.notes.update(id: "a") { $0.text = "one" }
        try await one.context.push()
        try await two.notes.delete(id: "a")
        if rule == .clientWins {
            try await two.context.push()
        } else {
            let error = try await rejection(two)
            #expect(error.statusCode == 412 && error.serverItem?["text"] == "one")
            try await error.cancelOperationAndDiscardItem()
        }
        try await one.sync()
        try await two.sync()
        #expect(try await two.text("a") == (rule == .clientWins ? nil : "one"))
        try await expectAgreement(one, two)
    }

    @Test("The server merges edits of different columns and reports edits of the same column")
    func theServerMerges() async throws {
        let backend = try await backend(settling: .merge)
        let (one, two) = (try await backend.device(), try await backend.device())
        try await one.notes.insert(Note(id: "a", text: "base", rank: 1))
        try await one.sync()
        try await two.sync()
        try await one.notes.update(id: "a") { $0.text = "one" }
        try await one.context.push()
        try await two.notes.update(id: "a") { $0.rank = 2 }
        try await two.context.push()
        let merged = try #require(try await two.notes.read(id: "a"))
        #expect(merged.text == "one" && merged.rank == 2)
        try await one.sync()
        try await two.sync()
        try await expectAgreement(one, two)
        // Both change the text.
        try await one.notes.update(id: "a") { $0.text = "three" }
        try await one.context.push()
        try await two.notes.update(id: "a") { $0.text = "four" }
        let error = try await rejection(two)
        #expect(error.statusCode == 412 && error.serverItem?["text"] == "three")
    }
}
