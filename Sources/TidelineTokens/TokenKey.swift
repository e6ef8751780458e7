// TokenKey: keys and algorithms.
//
// A token selects among the keys and the allowed algorithms of their kind. It never decides how a key is used: an RSA
// key cannot become an HMAC secret.

import CCrypto

/// A key that checks signatures of tokens, bound to its algorithms by its kind.
struct TokenKey: Sendable {
    enum Material: Sendable {
        case secret(HMACSecret)
        case publicKey(PublicKey)
    }

    /// The `kid` of a JWK.
    ///
    /// A key without one is tried for every token whose `kid` is unknown.
    var id: String?
    var material: Material
    /// The algorithm that the key's JWK restricts it to (`alg`), if any.
    var onlyAlgorithm: TokenAlgorithm?

    var algorithms: Set<TokenAlgorithm> {
        let ofKind: Set<TokenAlgorithm> =
            switch material {
            case .secret: [.hs256]
            case .publicKey(let key): key.kind.algorithms
            }
        return onlyAlgorithm.map { ofKind.intersection([$0]) } ?? ofKind
    }

    func isSignature(
        _ signature: [UInt8],
        of message: ArraySlice<UInt8>,
        by algorithm: TokenAlgorithm
    ) -> Bool {
        guard algorithms.contains(algorithm) else { return false }
        return switch material {
        case .secret(let secret): secret.isSignature(signature, of: message)
        case .publicKey(let key): key.isSignature(signature, of: message, by: algorithm)
        }
    }
}

/// A shared secret for HMAC with SHA-256.
struct HMACSecret: Sendable {
    private let bytes: [UInt8]

    init(_ bytes: [UInt8], _ name: String, _ limits: TokenLimits) throws(TokenError) {
        guard PEMBlock.all(in: bytes).isEmpty else {
            throw .unusableKey(
                "\(name) is a PEM file, not a secret. Use a public key or a certificate as the key file."
            )
        }
        guard bytes.count >= limits.secretBytesMin else {
            throw .unusableKey(
                "\(name) has \(bytes.count) bytes; at least \(limits.secretBytesMin) are required. "
                    + "Create one with: openssl rand -hex 32"
            )
        }
        guard bytes.count <= limits.keyFileBytesMax else {
            throw .unusableKey("\(name) is longer than \(limits.keyFileBytesMax) bytes.")
        }
        self.bytes = bytes
    }

    /// Returns the code of a message; nil only if OpenSSL has no memory.
    func code(of message: ArraySlice<UInt8>) -> [UInt8]? {
        var code = [UInt8](repeating: 0, count: 32)
        var count: UInt32 = 0
        let result = message.withUnsafeBufferPointer { message in
            HMAC(
                EVP_sha256(),
                bytes,
                Int32(bytes.count),
                message.baseAddress,
                message.count,
                &code,
                &count
            )
        }
        return result != nil && Int(count) == code.count ? code : nil
    }

    /// Compares in constant time.
    func isSignature(_ signature: [UInt8], of message: ArraySlice<UInt8>) -> Bool {
        guard let code = code(of: message), signature.count == code.count else { return false }
        return CRYPTO_memcmp(code, signature, code.count) == 0
    }
}
