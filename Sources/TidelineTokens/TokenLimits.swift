// TokenLimits: all limits on tokens and keys, with their reasons.

/// Limits on tokens and keys.
package struct TokenLimits: Hashable, Sendable {
    /// The longest token: it bounds the work that an unknown caller can cause.
    package var tokenBytesMax = 16 * 1024

    /// The longest key file.
    package var keyFileBytesMax = 1024 * 1024

    /// The most keys of one verifier: a token without `kid` is tried with each that fits.
    package var keysMax = 64

    /// The shortest HMAC secret: RFC 7518 section 3.2 requires the length of the hash.
    package var secretBytesMin = 32

    /// The shortest RSA modulus: RFC 7518 section 3.3.
    package var rsaBitsMin = 2048

    /// The longest RSA modulus: the time of a check grows with its square.
    package var rsaBitsMax = 8192

    /// The largest clock difference that can be configured.
    package var leewayMax: Duration = .seconds(600)

    package init() {}
}
