// Authenticator: users from tokens.
//
// The function that checks a token is injected, because this target contains no cryptography. The result of a
// check is cached for as long as the token is valid, so most requests cost one dictionary lookup.

import Synchronization
package import TidelineCore

/// A valid token, with its period of validity.
package struct CheckedToken: Sendable {
    package var user: User
    /// The start of the token's validity, in microseconds since 1970.
    package var validFrom: Int64
    /// The end of the token's validity, in microseconds since 1970.
    package var validUntil: Int64

    package init(user: User, validFrom: Int64 = .min, validUntil: Int64 = .max) {
        self.user = user
        self.validFrom = validFrom
        self.validUntil = validUntil
    }
}

/// The reason why a token is rejected, as text for the caller without any part of the token.
package struct TokenRejection: Error, Sendable {
    package enum Cause: Sendable {
        /// The token is invalid.
        case token
        /// No known key matches the token, but a newer key may.
        case unknownKey
        /// The keys could not be fetched yet.
        case noKeys
    }

    package var message: String
    package var cause: Cause

    package init(_ message: String, cause: Cause = .token) {
        self.message = message
        self.cause = cause
    }

    var error: ServerError {
        switch cause {
        case .token, .unknownKey: .invalidToken(message)
        case .noKeys: .busy(message)
        }
    }
}

/// A finder of the user of a request, which checks the token in the header fields.
package final class Authenticator: Sendable {
    /// Checks a token at a time in microseconds since 1970.
    package typealias Check =
        @Sendable (_ token: String, _ now: Int64) throws(TokenRejection) -> CheckedToken

    /// Reloads the keys, unless they were reloaded a short time ago.
    ///
    /// Returns whether the keys have changed.
    package typealias Renew = @Sendable () async -> Bool

    /// The checks and the renewal of keys.
    ///
    /// This is a class, because a closure stored in a generic type is wrapped again at each use.
    private final class Keys: Sendable {
        let check: Check
        let renew: Renew?

        init(_ check: @escaping Check, _ renew: Renew?) {
            self.check = check
            self.renew = renew
        }
    }

    private struct State {
        var keys: Keys
        var cache = TokenCache()
        /// The time of the next renewal even if every token matches a key, in microseconds since 1970.
        var nextRenewal: Int64?
    }

    private let state: Mutex<State>

    /// How long a withdrawn key may still be used, in microseconds: an hour.
    private static let renewalInterval: Int64 = 3_600_000_000

    /// Creates an authenticator that checks tokens with `check`, and renews keys with `renew`.
    package init(renew: Renew? = nil, _ check: @escaping Check) {
        state = Mutex(State(keys: Keys(check, renew)))
    }

    /// Returns the token of the request; nil if the request has none.
    ///
    /// If no key matches the token, the keys are renewed and the token is checked again.
    package func currentToken(of headers: HTTPFields, now: Int64) async throws -> CheckedToken? {
        renewIfDue(now)
        do {
            return try checkedToken(of: headers, now: now)
        } catch let rejection as TokenRejection {
            guard rejection.cause != .token, await renew() else { throw rejection.error }
            return try token(of: headers, now: now)
        }
    }

    /// Renews the keys; returns whether they have changed.
    @discardableResult
    package func renew() async -> Bool {
        let keys = state.withLock { $0.keys }
        guard let renew = keys.renew, await renew() else { return false }
        state.withLock { if $0.keys === keys { $0.cache = TokenCache() } }
        return true
    }

    private func renewIfDue(_ now: Int64) {
        let isDue = state.withLock { state in
            guard state.keys.renew != nil else { return false }
            guard let next = state.nextRenewal, now < next, now >= next - Self.renewalInterval
            else {
                // If the wall clock was set, the interval starts over.
                defer { state.nextRenewal = now + Self.renewalInterval }
                return state.nextRenewal != nil
            }
            return false
        }
        if isDue { Task { await renew() } }
    }

    /// Replaces the checks with those of another authenticator, and empties the cache.
    package func become(_ other: Authenticator) {
        let keys = other.state.withLock { $0.keys }
        state.withLock { $0 = State(keys: keys) }
    }

    /// Returns the user of the request's token; nil if the request has no token.
    ///
    /// An invalid token is rejected with 401.
    package func user(of headers: HTTPFields, now: Int64) throws -> User? {
        try token(of: headers, now: now)?.user
    }

    /// Returns the token of the request; nil without one.
    ///
    /// An invalid token is rejected with 401.
    func token(of headers: HTTPFields, now: Int64) throws -> CheckedToken? {
        do {
            return try checkedToken(of: headers, now: now)
        } catch let rejection as TokenRejection {
            throw rejection.error
        }
    }

    private func checkedToken(of headers: HTTPFields, now: Int64) throws -> CheckedToken? {
        guard let token = try Self.token(in: headers) else { return nil }
        let (known, keys) = state.withLock { ($0.cache.token(token, now: now), $0.keys) }
        if let known { return known }
        let checked = try keys.check(token, now)
        guard Self.isUsable(checked.user.id) else { throw TokenRejection(Self.unusableUser) }
        // Results from keys that were replaced in the meantime are not cached.
        state.withLock { if $0.keys === keys { $0.cache.put(checked, for: token) } }
        return checked
    }

    /// Returns `X-ZUMO-AUTH`, or the bearer token of `Authorization` if that header is absent or empty.
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
        // Swift considers some strings equal that have different bytes; the cache must not confuse them.
        guard !token.isEmpty, token.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw ServerError.invalidToken(noToken)
        }
        return token
    }

    /// Returns the credentials after the scheme; nil for another scheme, which this type does not support.
    static func bearer(_ value: String) -> String? {
        let parts = value.split(separator: " ", maxSplits: 1)
        guard let scheme = parts.first, ASCII.equal(scheme, "bearer") else { return nil }
        return parts.count > 1 ? String(parts[1].drop { $0 == " " }) : ""
    }

    private static let twoTokens = "The request has more than one token of the same kind."
    private static let noToken = "The token is empty or has characters that are not allowed."
    package static let unusableUser =
        "The user in the token must have 1 to \(userBytesMax) bytes and no control characters."

    /// The maximum size of a user id in bytes, which is stored in each row of the user.
    private static let userBytesMax = 1024

    /// Whether a character is invisible or changes how text is displayed.
    ///
    /// This includes Unicode's control, line, direction and format characters, except for the two joiners that
    /// are parts of words.
    private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
        if scalar.value < 0x7F { return scalar.value < 0x20 }
        switch scalar.properties.generalCategory {
        case .control, .lineSeparator, .paragraphSeparator: return true
        case .format: return scalar.value != 0x200C && scalar.value != 0x200D
        default: return false
        }
    }

    /// Whether a token's `sub` is valid as a user id.
    package static func isUsable(_ id: String) -> Bool {
        (1...userBytesMax).contains(id.utf8.count)
            && id.unicodeScalars.allSatisfy { !isControl($0) }
    }
}

/// A cache of tokens that were recently found valid.
///
/// Invalid tokens are never stored, so only callers with a valid token can fill it.
struct TokenCache {
    /// The maximum number of tokens of a generation.
    ///
    /// Together with `tokenBytesMax`, it bounds the memory.
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
