// TokenAlgorithm: the three signature algorithms, by their names of RFC 7518.

/// A signature algorithm of a token, which belongs to one kind of key.
package enum TokenAlgorithm: String, Hashable, Sendable, CaseIterable {
    /// HMAC with SHA-256 and a shared secret.
    case hs256 = "HS256"
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    case rs256 = "RS256"
    /// ECDSA on P-256 with SHA-256.
    case es256 = "ES256"

    /// The names of `algorithms`, sorted, for messages.
    static func list(_ algorithms: Set<TokenAlgorithm>) -> String {
        algorithms.map(\.rawValue).sorted().joined(separator: ", ")
    }
}
