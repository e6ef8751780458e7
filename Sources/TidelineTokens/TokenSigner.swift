// TokenSigner: creates tokens, for trying things out and for tests.

import CCrypto
import TidelineCore

/// A signer of JSON Web Tokens.
///
/// ```swift
/// let signer = try TokenSigner(secret: TokenKeySource.secretBytes(file: contents))
/// let token = try signer.sign(TokenClaims(subject: "anna", expiresAt: tomorrow))
/// ```
package struct TokenSigner {
    private enum Material {
        case secret(HMACSecret)
        case privateKey(KeyHandle)
    }

    /// The algorithm that the key signs with.
    package let algorithm: TokenAlgorithm

    private let material: Material
    private let keyID: String?
    private let limits: TokenLimits

    /// Creates a signer with HS256.
    ///
    /// - Parameters:
    ///   - secret: The secret, which the verifier also has; for a file, see
    ///     ``TokenKeySource/secretBytes(file:)``.
    ///   - keyID: The `kid` of the tokens.
    ///   - limits: Limits on tokens and keys.
    /// - Throws: ``TokenError`` with `unusableKey`.
    package init(
        secret: [UInt8],
        keyID: String? = nil,
        limits: TokenLimits = TokenLimits()
    ) throws(TokenError) {
        material = .secret(try HMACSecret(secret, "The secret", limits))
        algorithm = .hs256
        self.keyID = keyID
        self.limits = limits
    }

    /// Creates a signer with a private key.
    ///
    /// - Parameters:
    ///   - pem: A private key without a password.
    ///   - wanted: An algorithm of the key; nil for RS256 or ES256, depending on the key.
    ///   - keyID: The `kid` of the tokens.
    ///   - limits: Limits on tokens and keys.
    /// - Throws: ``TokenError`` with `unusableKey`.
    package init(
        privateKey pem: [UInt8],
        algorithm wanted: TokenAlgorithm? = nil,
        keyID: String? = nil,
        limits: TokenLimits = TokenLimits()
    ) throws(TokenError) {
        let name = "The private key"
        guard pem.count <= limits.keyFileBytesMax else {
            throw .unusableKey("\(name) is longer than \(limits.keyFileBytesMax) bytes.")
        }
        let blocks = PEMBlock.all(in: pem).filter { $0.label.hasSuffix("PRIVATE KEY") }
        guard blocks.count == 1 else {
            throw .unusableKey(
                "The key file has \(blocks.count) private keys in PEM instead of one."
            )
        }
        guard let handle = KeyHandle.privateKey(pem: blocks[0].text) else {
            throw .unusableKey("\(name) cannot be read. It must not have a password.")
        }
        // The same rules as for the public key.
        let allowed: Set<TokenAlgorithm> = wanted.map { [$0] } ?? TokenAlgorithm.usual
        let kind = try PublicKey(handle, name, for: allowed, limits).kind
        let fitting = kind.algorithms.intersection(allowed)
        guard let algorithm = TokenAlgorithm.allCases.first(where: fitting.contains) else {
            throw .unusableKey("\(name) cannot be used for \(TokenAlgorithm.list(allowed)).")
        }
        self.algorithm = algorithm
        material = .privateKey(handle)
        self.keyID = keyID
        self.limits = limits
    }

    /// Creates a token.
    ///
    /// - Parameter claims: The claims of the token; times are truncated to seconds.
    /// - Returns: The compact form.
    /// - Throws: ``TokenError`` without a subject, with a registered claim among the other ones, or if the
    ///   token is too long.
    package func sign(_ claims: TokenClaims) throws(TokenError) -> String {
        var header = JSONWriter()
        header.row(headerMembers)
        let signed = Base64URL.encode(header.bytes) + "." + Base64URL.encode(try claims.json())
        guard let signature = signature(of: Array(signed.utf8)) else {
            throw .unusableKey("The key did not create a signature.")
        }
        let token = signed + "." + Base64URL.encode(signature)
        guard token.utf8.count <= limits.tokenBytesMax else {
            throw .tooLarge(limits.tokenBytesMax)
        }
        return token
    }

    private var headerMembers: Row {
        var members: Row = ["alg": .string(algorithm.rawValue), "typ": "JWT"]
        if let keyID { members["kid"] = .string(keyID) }
        return members
    }

    private func signature(of message: [UInt8]) -> [UInt8]? {
        switch material {
        case .secret(let secret): return secret.code(of: message[...])
        case .privateKey(let handle):
            let signature = Self.sign(message, handle, algorithm)
            guard let curve = Curve.allCases.first(where: { $0.algorithm == algorithm }) else {
                return signature
            }
            return signature.flatMap { ECDSASignature.raw(der: $0, half: curve.bytes) }
        }
    }

    private static func sign(
        _ message: [UInt8],
        _ key: KeyHandle,
        _ algorithm: TokenAlgorithm
    ) -> [UInt8]? {
        defer { ERR_clear_error() }
        guard let context = EVP_MD_CTX_new() else { return nil }
        defer { EVP_MD_CTX_free(context) }
        guard SignatureStart.begin(context, key, algorithm, EVP_DigestSignInit) else {
            return nil
        }
        var count = 0
        guard EVP_DigestSign(context, nil, &count, message, message.count) == 1 else { return nil }
        var signature = [UInt8](repeating: 0, count: count)
        guard EVP_DigestSign(context, &signature, &count, message, message.count) == 1 else {
            return nil
        }
        return Array(signature.prefix(count))
    }
}
