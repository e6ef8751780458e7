// TokenLimits: all limits on tokens and keys, with their reasons.

/// Limits on tokens and keys.
package struct TokenLimits: Hashable, Sendable {
    /// The maximum size of a token, which limits the work that an unknown caller can cause.
    package var tokenBytesMax = 16 * 1024

    /// The maximum size of a key file.
    package var keyFileBytesMax = 1024 * 1024

    /// The maximum number of keys of one verifier, because a token without `kid` is tried with each matching
    /// key.
    package var keysMax = 64

    /// The minimum size of an HMAC secret; RFC 7518 section 3.2 requires the length of the hash.
    package var secretBytesMin = 32

    /// The minimum size of an RSA modulus (RFC 7518 section 3.3).
    package var rsaBitsMin = 2048

    /// The maximum size of an RSA modulus, because the time of a check grows with its square.
    package var rsaBitsMax = 8192

    /// The maximum clock difference that can be configured.
    package var leewayMax: Duration = .seconds(600)

    package init() {}
}
