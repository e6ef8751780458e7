// SignIn: the signed-in account of a test. A token is the account's name with a number that each renewal increments.

import Foundation
import Synchronization
import Tideline

package final class SignIn: Authentication {
    package struct NoToken: Error, CustomStringConvertible {
        package var description: String { "secret" }
    }

    private struct State {
        var account: String?
        var number = 1
        var renewals: [Bool] = []
        var fails = false
        var onRefresh: (@Sendable () async -> Void)?
    }

    private let state: Mutex<State>

    package init(_ account: String?) { state = Mutex(State(account: account)) }

    package var accountID: String? { state.withLock { $0.account } }

    package func change(to account: String?) { state.withLock { $0.account = account } }

    /// For each token request, whether it was a renewal.
    package var renewals: [Bool] { state.withLock { $0.renewals } }

    package func fail() { state.withLock { $0.fails = true } }

    /// Runs a closure while a token is renewed.
    package func onRefresh(_ body: @escaping @Sendable () async -> Void) {
        state.withLock { $0.onRefresh = body }
    }

    package func token(refreshing: Bool) async throws -> String {
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
