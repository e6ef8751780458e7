// TokenVerifier: converts the text of a token to its claims, or to the reason for its rejection.
//
// The order is fixed: form, header, key, signature; only then is the payload read. Pure except for
// OpenSSL: the time is a parameter.

package import TidelineCore

/// A verifier of JSON Web Tokens (RFC 7519).
///
/// It is created once, and may be used on any number of threads.
///
/// ```swift
/// let verifier = try TokenVerifier(
///     keys: [.jwks(file)],
///     issuer: "https://id.example",
///     audience: "todo"
/// )
/// let claims = try verifier.verify(token, now: now)
/// ```
package struct TokenVerifier: Sendable {
    /// The algorithms that tokens may have.
    package let algorithms: Set<TokenAlgorithm>

    private let keys: [TokenKey]
    private let issuer: String?
    private let audience: String?
    /// The claim that names the user.
    package let userClaim: String
    private let leeway: Duration
    private let limits: TokenLimits

    /// Creates a verifier; reads and checks the keys.
    ///
    /// - Parameters:
    ///   - sources: The sources of the keys. Keys that fit no allowed algorithm are ignored.
    ///   - algorithms: The allowed algorithms; nil for those of HS256, RS256 and ES256 that the keys fit.
    ///   - issuer: The value that `iss` must have; nil for any or none.
    ///   - audience: The value that `aud` must be or contain; nil for any or none.
    ///   - userClaim: The claim that names the user.
    ///   - leeway: The maximum difference of the clocks of server and issuer.
    ///   - limits: Limits on tokens and keys.
    /// - Throws: ``TokenError`` with `unusableKey` or `wrongSetting`.
    package init(
        keys sources: [TokenKeySource],
        algorithms: Set<TokenAlgorithm>? = nil,
        issuer: String? = nil,
        audience: String? = nil,
        userClaim: String = "sub",
        leeway: Duration = .seconds(60),
        limits: TokenLimits = TokenLimits()
    ) throws(TokenError) {
        guard leeway >= .zero, leeway <= limits.leewayMax else {
            let most = limits.leewayMax.components.seconds
            throw .wrongSetting("The leeway must be 0 to \(most) seconds.")
        }
        var found: [TokenKey] = []
        let allowed = algorithms ?? TokenAlgorithm.usual
        for source in sources { found += try source.keys(for: allowed, limits) }
        guard found.count <= limits.keysMax else {
            throw .wrongSetting("There are more than \(limits.keysMax) keys.")
        }
        let fitting = found.reduce(into: Set<TokenAlgorithm>()) { $0.formUnion($1.algorithms) }
        self.algorithms = allowed.intersection(fitting)
        keys = found.filter { !allowed.isDisjoint(with: $0.algorithms) }
        guard !keys.isEmpty else {
            throw .unusableKey(
                fitting.isEmpty
                    ? "There is no key for \(TokenAlgorithm.list(allowed))."
                    : "No allowed algorithm matches a key. The keys are for "
                        + "\(TokenAlgorithm.list(fitting))."
            )
        }
        self.issuer = issuer
        self.audience = audience
        self.userClaim = userClaim
        self.leeway = leeway
        self.limits = limits
    }

    /// Checks all parts of a token.
    ///
    /// A token is rejected at or after `exp` plus leeway, and before `nbf` or `iat` minus leeway; `sub` must
    /// not be empty. `exp` may be absent, because the lifetime of tokens is the issuer's choice.
    ///
    /// - Parameters:
    ///   - token: The compact form, without `Bearer`.
    ///   - now: The time of the server.
    /// - Returns: The claims of the token.
    /// - Throws: ``TokenError``. Its message contains no part of the token, and may be shown to the caller.
    package func verify(_ token: String, now: Timestamp) throws(TokenError) -> TokenClaims {
        let token = try SignedToken(token, allowed: algorithms, limits: limits)
        let fitting = keys(for: token)
        guard !fitting.isEmpty else { throw .unknownKey }
        guard
            fitting.contains(where: {
                $0.isSignature(token.signature, of: token.signed, by: token.algorithm)
            })
        else { throw .wrongSignature }
        let claims = try TokenClaims(json: token.payload)
        try checkTimes(of: claims, now)
        try checkParties(of: claims)
        return claims
    }

    /// Returns the keys with the token's `kid`, or if there are none, the keys without a `kid`.
    ///
    /// Of these, only keys that fit the token's algorithm are returned; the result is empty for a known `kid` with
    /// another algorithm.
    private func keys(for token: SignedToken) -> [TokenKey] {
        var candidates = keys
        if let id = token.keyID {
            let named = keys.filter { $0.id?.isSameText(as: id) ?? false }
            candidates = named.isEmpty ? keys.filter { $0.id == nil } : named
        }
        return candidates.filter { $0.algorithms.contains(token.algorithm) }
    }

    private func checkTimes(of claims: TokenClaims, _ now: Timestamp) throws(TokenError) {
        let (seconds, attoseconds) = leeway.components
        let leeway = seconds * 1_000_000 + attoseconds / 1_000_000_000_000
        let earliest = now.microseconds - leeway
        let latest = now.microseconds + leeway
        if let instant = claims.expiresAt, earliest >= instant.microseconds { throw .expired }
        if let instant = claims.notBefore, latest < instant.microseconds { throw .notYetValid }
        if let instant = claims.issuedAt, latest < instant.microseconds { throw .issuedInTheFuture }
    }

    private func checkParties(of claims: TokenClaims) throws(TokenError) {
        if let issuer, !(claims.issuer?.isSameText(as: issuer) ?? false) { throw .wrongIssuer }
        if let audience, !claims.audience.contains(where: audience.isSameText) {
            throw .wrongAudience
        }
        guard claims.user(userClaim) != nil else { throw .missingUser(userClaim) }
    }

    /// Returns the user from verified claims.
    package func user(of claims: TokenClaims) -> String { claims.user(userClaim) ?? "" }
}
