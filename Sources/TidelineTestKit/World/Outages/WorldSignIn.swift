// WorldSignIn: the sign-in of a simulated device; its tokens expire and sometimes cannot be
// renewed.

import Foundation
import Synchronization
import Tideline

/// An authentication whose tokens contain their expiration time, like JSON Web Tokens.
final class WorldSignIn: Authentication {
    private struct State {
        var generator: SeededGenerator
        var token: String?
        var isFailing = false
    }

    private let time: VirtualTime
    private let state: Mutex<State>

    init(_ time: VirtualTime, seed: UInt64) {
        self.time = time
        state = Mutex(State(generator: SeededGenerator(seed: seed ^ 0x746F_6B65)))
    }

    /// The account of all devices, because all of them belong to the same user.
    let accountID: String? = "user"

    /// Makes the token server unreachable, or reachable again.
    func setFailing(_ isFailing: Bool) { state.withLock { $0.isFailing = isFailing } }

    func token(refreshing: Bool) async throws -> String {
        let wait = state.withLock { Int.random(in: 1...2000, using: &$0.generator) }
        try await time.sleep(.milliseconds(wait))
        return try state.withLock { state in
            if state.isFailing { throw URLError(.timedOut) }
            if let token = state.token, !refreshing { return token }
            let life = Int64.random(in: 20_000_000...90_000_000, using: &state.generator)
            let token = "expires-\(time.now + life)"
            state.token = token
            return token
        }
    }

    /// Returns whether a request has an expired token.
    static func isExpired(_ request: TransportRequest, at now: Int64) -> Bool {
        guard let field = request.headers["Authorization"],
            let start = field.firstRange(of: "expires-"),
            let expires = Int64(field[start.upperBound...])
        else { return false }
        return expires <= now
    }

    /// The server's response to a request with an expired token.
    static let rejection = TransportResponse(
        status: 401,
        headers: [
            "Content-Type": "application/problem+json",
            "WWW-Authenticate": #"Bearer error="invalid_token""#,
        ],
        body: Array(
            #"{"title":"Unauthorized","status":401,"detail":"The token has expired."}"#.utf8
        )
    )
}
