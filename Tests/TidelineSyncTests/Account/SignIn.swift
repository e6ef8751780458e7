// SignIn: the signed-in account of a test. A token is the account's name with a number that each renewal increments.

import Foundation
import Synchronization
import Tideline

final class SignIn: Authentication {
    struct NoToken: Error, CustomStringConvertible {
        var description: String { "secret" }
    }

    private struct State {
        var account: String?
        var number = 1
        var renewals: [Bool] = []
        var fails = false
        var onRefresh: (@Sendable () async -> Void)?
    }

    private let state: Mutex<State>

    init(_ account: String?) { state = Mutex(State(account: account)) }

    var accountID: String? { state.withLock { $0.account } }

    func change(to account: String?) { state.withLock { $0.account = account } }

    /// For each token request, whether it was a renewal.
    var renewals: [Bool] { state.withLock { $0.renewals } }

    func fail() { state.withLock { $0.fails = true } }

    /// Runs a closure while a token is renewed.
    func onRefresh(_ body: @escaping @Sendable () async -> Void) {
        state.withLock { $0.onRefresh = body }
    }

    func token(refreshing: Bool) async throws -> String {
        let hook = state.withLock { state in
            state.renewals.append(refreshing)
            if refreshing { state.number += 1 }
            return refreshing ? state.onRefresh : nil
        }
        await hook?()
        return try state.withLock { state in
            if state.fails { throw NoToken() }
            return "\(state.account ?? "nobody")-token-\(state.number)"
        }
    }
}
