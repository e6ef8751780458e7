// Guarantee 10, no account's data is sent under another account's name: accounts that change at any time, in front of a
// network that loses answers, on one store.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct AccountSwitchTests {
    private static let accounts: [String?] = ["anna", "ben", nil]

    /// A server that requires a token, and records the data that it received under the wrong one.
    private final class Guarded: Transport {
        private struct State {
            var generator: SeededGenerator
            var isFaulty = true
            var foreign: [String] = []
        }

        private let inner: InProcessTransport
        private let signIn: SignIn
        private let state: Mutex<State>

        init(_ inner: InProcessTransport, _ signIn: SignIn, seed: UInt64) {
            (self.inner, self.signIn) = (inner, signIn)
            state = Mutex(State(generator: SeededGenerator(seed: seed)))
        }

        var foreign: [String] { state.withLock { $0.foreign } }

        func stopFaults() { state.withLock { $0.isFaulty = false } }

        private func chance(_ percent: Int) -> Bool {
            state.withLock { $0.isFaulty && $0.generator.chance(percent) }
        }

        func send(_ request: TransportRequest) async throws -> TransportResponse {
            guard let token = request.headers["Authorization"]?.dropFirst("Bearer ".count),
                let account = token.split(separator: "-").first, !chance(10)
            else { return TransportResponse(status: 401, headers: ["WWW-Authenticate": "Bearer"]) }
            let body = String(decoding: request.body ?? [], as: UTF8.self)
            for part in body.split(separator: "\"") where part.hasPrefix("by-") {
                guard !part.hasPrefix("by-\(account)-") else { continue }
                state.withLock { $0.foreign.append("\(part) under \(account)") }
            }
            if chance(10) { throw TransportError(.connectionLost, "Lost.", outcomeIsUnknown: true) }
            let response = try await inner.send(request)
            if chance(10) { signIn.change(to: chance(50) ? "anna" : "ben") }
            if chance(10) { throw TransportError(.connectionLost, "Lost.", outcomeIsUnknown: true) }
            return response
        }
    }

    @Test(
        "No account sends another account's data when sign-ins change at random",
        arguments: TestScope.first(6, of: UInt64(0)..<60)
    )
    func noAccountSendsAnotherAccountsData(seed: UInt64) async throws {
        var draw = SeededGenerator(seed: seed)
        let signIn = SignIn("anna")
        let server = try await makeServer()
        let guarded = Guarded(server.transport, signIn, seed: seed)
        let device = try await Device(
            guarded,
            authentication: signIn,
            generation: .datasync
        )
        let todos = try device.todos()
        for step in 0..<40 {
            let id = "\(Int.random(in: 0..<6, using: &draw))"
            switch Int.random(in: 0..<100, using: &draw) {
            case ..<15: signIn.change(to: Self.accounts.randomElement(using: &draw) ?? nil)
            case ..<30: _ = try? await device.context.push()
            case ..<45: _ = try? await todos.pull(queryID: "all")
            case ..<55: _ = try? await todos.delete(id: id)
            default:
                let text = "by-\(signIn.accountID ?? "nobody")-\(step)"
                let isThere = try await todos.read(id: id) != nil
                _ =
                    isThere
                    ? try? await todos.update(id: id) { $0.text = text }
                    : try? await todos.insert(Todo(id: id, text: text))
            }
        }
        guarded.stopFaults()
        for account in ["anna", "ben", "anna"] {
            signIn.change(to: account)
            _ = try await device.context.adopt(anonymousWork: false)
            for _ in 0..<3 {
                for error in try await device.context.operationErrors() {
                    try await error.cancelOperationAndDiscardItem()
                }
                _ = try? await device.context.push()
            }
            try await todos.pull(queryID: "all")
        }
        #expect(guarded.foreign == [])
        #expect(try await device.queue() == [])
        let direct = SyncClient(endpoint: Device.endpoint, transport: server.transport)
        let serverRows = try await direct.table(Todo.self).read(sortedBy: [.ascending(\.id)])
        #expect(try await todos.read(sortedBy: [.ascending(\.id)]) == serverRows)
    }
}
