// TokenAlgorithm: the signature algorithms, by their names of RFC 7518 and RFC 8037.

/// A signature algorithm of a token, which belongs to one kind of key.
package enum TokenAlgorithm: String, Hashable, Sendable, CaseIterable {
    /// HMAC with SHA-256 and a shared secret.
    case hs256 = "HS256"
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    case rs256 = "RS256"
    /// RSASSA-PKCS1-v1_5 with SHA-384.
    case rs384 = "RS384"
    /// RSASSA-PKCS1-v1_5 with SHA-512.
    case rs512 = "RS512"
    /// RSASSA-PSS with SHA-256.
    case ps256 = "PS256"
    /// RSASSA-PSS with SHA-384.
    case ps384 = "PS384"
    /// RSASSA-PSS with SHA-512.
    case ps512 = "PS512"
    /// ECDSA on P-256 with SHA-256.
    case es256 = "ES256"
    /// ECDSA on P-384 with SHA-384.
    case es384 = "ES384"
    /// EdDSA on Ed25519.
    case edDSA = "EdDSA"

    /// The algorithms that are allowed by default.
    package static let usual: Set<TokenAlgorithm> = [.hs256, .rs256, .es256]

    /// The algorithms of RSA keys.
    static let ofRSA: Set<TokenAlgorithm> = [.rs256, .rs384, .rs512, .ps256, .ps384, .ps512]

    /// Whether signatures have the padding of RSASSA-PSS.
    var isPSS: Bool { [.ps256, .ps384, .ps512].contains(self) }

    /// The names of `algorithms`, sorted, for messages.
    static func list(_ algorithms: Set<TokenAlgorithm>) -> String {
        algorithms.map(\.rawValue).sorted().joined(separator: ", ")
    }
}
