// Authenticator: from the header fields of a request to its user.
//
// How a token is checked is handed in: this target knows no cryptography. What a check found is
// kept for as long as the token holds, so that most requests pay one look into a dictionary.

import Synchronization
package import TidelineCore

/// A token that was found right, and for how long.
package struct CheckedToken: Sendable {
    package var user: User
    /// Microseconds since 1970, from which on the token holds.
    package var validFrom: Int64
    /// Microseconds since 1970, at which the token holds no more.
    package var validUntil: Int64

    package init(user: User, validFrom: Int64 = .min, validUntil: Int64 = .max) {
        self.user = user
        self.validFrom = validFrom
        self.validUntil = validUntil
    }
}

/// Why a token is refused, in words that hold nothing of it, for the caller.
package struct TokenRefusal: Error, Sendable {
    package var message: String

    package init(_ message: String) {
        self.message = message
    }
}

package final class Authenticator: Sendable {
    /// Checks the text of a token at a time in microseconds since 1970.
    package typealias Check =
        @Sendable (_ token: String, _ now: Int64) throws(TokenRefusal) -> CheckedToken

    /// An object, as a closure that is kept in a generic type is wrapped anew by each use.
    private final class Keys: Sendable {
        let check: Check
        init(_ check: @escaping Check) { self.check = check }
    }

    private struct State {
        var keys: Keys
        var cache = TokenCache()
    }

    private let state: Mutex<State>

    package init(_ check: @escaping Check) {
        state = Mutex(State(keys: Keys(check)))
    }

    /// From now on checks as another one does; what was found right before is forgotten.
    package func become(_ other: Authenticator) {
        let keys = other.state.withLock { $0.keys }
        state.withLock { $0 = State(keys: keys) }
    }

    /// The user of the request's token, nil without a token; a bad token is 401.
    package func user(of headers: HTTPFields, now: Int64) throws -> User? {
        try token(of: headers, now: now)?.user
    }

    /// The request's token, nil when there is none; a bad one is 401.
    func token(of headers: HTTPFields, now: Int64) throws -> CheckedToken? {
        guard let token = try Self.token(in: headers) else { return nil }
        let (known, keys) = state.withLock { ($0.cache.token(token, now: now), $0.keys) }
        if let known { return known }
        do {
            let checked = try keys.check(token, now)
            guard Self.isUsable(checked.user.id) else { throw TokenRefusal(Self.unusableUser) }
            // Not what keys found right that are gone meanwhile.
            state.withLock { if $0.keys === keys { $0.cache.put(checked, for: token) } }
            return checked
        } catch let refusal as TokenRefusal {
            throw ServerError.invalidToken(refusal.message)
        }
    }

    /// `X-ZUMO-AUTH`, or the bearer token of `Authorization` when that is absent or empty.
    private static func token(in headers: HTTPFields) throws -> String? {
        var zumo: String?
        var authorization: String?
        for field in headers {
            switch field.name.utf8.count {
            case 11 where ASCII.equal(field.name, "x-zumo-auth") && !field.value.isEmpty:
                guard zumo == nil else { throw ServerError.invalidToken(twoTokens) }
                zumo = field.value
            case 13 where ASCII.equal(field.name, "authorization"):
                guard authorization == nil else { throw ServerError.invalidToken(twoTokens) }
                authorization = field.value
            default: break
            }
        }
        guard let token = zumo ?? authorization.flatMap(bearer) else { return nil }
        // Texts that are equal to Swift and not the same bytes must not meet in the cache.
        guard !token.isEmpty, token.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw ServerError.invalidToken(noToken)
        }
        return token
    }

    /// What follows the scheme; nil for another scheme, which is none of ours.
    static func bearer(_ value: String) -> String? {
        let parts = value.split(separator: " ", maxSplits: 1)
        guard let scheme = parts.first, ASCII.equal(scheme, "bearer") else { return nil }
        return parts.count > 1 ? String(parts[1].drop { $0 == " " }) : ""
    }

    private static let twoTokens = "There is more than one token of a kind."
    private static let noToken = "There is no token where one is announced."
    package static let unusableUser =
        "The sub of the token must have 1 to \(userBytesMax) bytes, none of them a control."

    /// It is stored in the rows of its user.
    private static let userBytesMax = 1024

    /// Whether a token's `sub` can be that of a user.
    package static func isUsable(_ id: String) -> Bool {
        (1...userBytesMax).contains(id.utf8.count)
            && id.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }
    }
}

/// The tokens found right of late.
///
/// Wrong tokens are never in it, so nobody without a right one can fill it.
struct TokenCache {
    /// The most tokens of a generation, and the longest: together they bound the memory.
    static let tokensMax = 1000
    static let tokenBytesMax = 4096

    private var tokens = GenerationCache<String, CheckedToken>(countMax: tokensMax)

    mutating func token(_ token: String, now: Int64) -> CheckedToken? {
        guard let found = tokens.value(token) else { return nil }
        guard found.validFrom <= now, now < found.validUntil else {
            tokens.remove(token)
            return nil
        }
        return found
    }

    mutating func put(_ checked: CheckedToken, for token: String) {
        if token.utf8.count <= Self.tokenBytesMax { tokens.put(checked, for: token) }
    }
}
