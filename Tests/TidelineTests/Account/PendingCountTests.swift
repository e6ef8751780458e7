// How many operations are pending, counted by account, and the order of their errors.

import Foundation
import Observation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite(.timeLimit(.minutes(10))) struct PendingCountTests {
    private let transport = ScriptedTransport()
    private let signIn = SignIn("anna")

    private func device() async throws -> Device {
        try await Device(transport, authentication: signIn, generation: .datasync)
    }

    @Test("Changes of other accounts are counted separately")
    func countsByAccount() async throws {
        let device = try await device()
        try await device.todos().insert([Todo(id: "a"), Todo(id: "b")])
        signIn.change(to: nil)
        try await device.todos().insert(Todo(id: "c"))
        #expect(
            try await device.context.pendingOperationCounts
                == PendingCounts(own: 1, otherAccounts: 2)
        )
        signIn.change(to: "ben")
        try await device.todos().insert([Todo(id: "d"), Todo(id: "e"), Todo(id: "f")])
        #expect(
            try await device.context.pendingOperationCounts
                == PendingCounts(own: 3, anonymous: 1, otherAccounts: 2)
        )
        #expect(try await device.context.pendingOperationCount == 3)
        #expect(try await device.context.pendingOperations().count == 6)
        signIn.change(to: "anna")
        #expect(try await device.context.pendingOperationCount == 2)
    }

    @Test("Every change is counted if there are no accounts")
    func countsWithoutAccounts() async throws {
        let device = try await Device(transport)
        try await device.todos().insert([Todo(id: "a"), Todo(id: "b")])
        #expect(try await device.context.pendingOperationCounts == PendingCounts(own: 2))
    }

    @MainActor
    @Test("A view counts the changes of the account that is signed in")
    func aViewFollowsTheAccount() async throws {
        let device = try await device()
        try await device.todos().insert([Todo(id: "a"), Todo(id: "b")])
        let live = try LiveStatus(device.client)
        try await until { live.pending == PendingCounts(own: 2) }
        signIn.change(to: "ben")
        await device.client.accountChanged()
        try await until { live.pending == PendingCounts(otherAccounts: 2) }
        #expect(live.pendingCount == 0)
    }

    @Test("The first error describes the rejected row, not another row of its transaction")
    func theRejectedRowComesFirst() async throws {
        let scene = try await GroupScene(rows: ["a", "b", "c"])
        try await scene.interfere("c")
        try await scene.set("a", "b", "c", to: "mine")
        let error = try #require(try await scene.device.push())
        #expect(error.status == .operationErrors)
        #expect(error.errors.map(\.itemID) == ["a", "b", "c"])
        let text = error.localizedDescription
        let places = try error.errors.map { try #require(text.range(of: $0.message)?.lowerBound) }
        #expect(places[2] < places[0] && places[0] < places[1])
        #expect(error.errors[1].localizedDescription == error.errors[1].message)
    }
}
