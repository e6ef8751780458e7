// TokenKeySource: keys as an operator provides them, and their conversion to verification keys.

import TidelineCore

/// The source of a ``TokenVerifier``'s keys: the contents of a file, not its name.
///
/// The description contains only the kind, so that no secret is printed.
package enum TokenKeySource: Sendable {
    /// A secret that is shared with the issuer of the tokens, for HS256. See ``secretBytes(file:)``.
    case secret([UInt8])
    /// One or more public keys or certificates with RSA keys or keys on a curve.
    ///
    /// Only the key of a certificate is used; its dates and its issuer are not checked.
    case pem([UInt8])
    /// A JWK Set (RFC 7517). Keys for another use or algorithm are ignored.
    case jwks([UInt8])

    /// Returns the secret in a file.
    ///
    /// A line ending at the end of a text file is not part of it. A file with control characters is used
    /// unchanged.
    package static func secretBytes(file contents: [UInt8]) -> [UInt8] {
        let isText = contents.allSatisfy { $0 >= 0x20 && $0 != 0x7F || $0 == 0x0A || $0 == 0x0D }
        guard isText, contents.last == 0x0A else { return contents }
        let line = contents.dropLast()
        return Array(line.last == 0x0D ? line.dropLast() : line)
    }
}

extension TokenKeySource: CustomStringConvertible {
    package var description: String {
        switch self {
        case .secret: "a secret"
        case .pem: "keys in PEM"
        case .jwks: "a JWK Set"
        }
    }
}

extension TokenKeySource {
    /// Reads the keys; ignores keys of a JWK Set that fit none of the allowed algorithms.
    func keys(
        for allowed: Set<TokenAlgorithm>,
        _ limits: TokenLimits
    ) throws(TokenError) -> [TokenKey] {
        switch self {
        case .secret(let bytes):
            let secret = try HMACSecret(bytes, "The secret", limits)
            return [TokenKey(id: nil, material: .secret(secret))]
        case .pem(let bytes):
            guard bytes.count <= limits.keyFileBytesMax else {
                throw .unusableKey("The key file is longer than \(limits.keyFileBytesMax) bytes.")
            }
            return try Self.keys(pem: bytes, allowed, limits)
        case .jwks(let bytes):
            guard bytes.count <= limits.keyFileBytesMax else {
                throw .unusableKey("The JWK Set is longer than \(limits.keyFileBytesMax) bytes.")
            }
            return try JSONWebKeySet.keys(json: bytes, for: allowed, limits)
        }
    }

    private static func keys(
        pem: [UInt8],
        _ allowed: Set<TokenAlgorithm>,
        _ limits: TokenLimits
    ) throws(TokenError) -> [TokenKey] {
        let blocks = PEMBlock.all(in: pem)
        guard !blocks.isEmpty else {
            throw .unusableKey("The key file has no PEM block (-----BEGIN PUBLIC KEY-----).")
        }
        var keys: [TokenKey] = []
        for (index, block) in blocks.enumerated() {
            let handle: KeyHandle?
            switch block.label {
            case "PUBLIC KEY": handle = .publicKey(pem: block.text)
            case "CERTIFICATE": handle = .certificate(pem: block.text)
            case let label where label.hasSuffix("PRIVATE KEY"):
                throw .unusableKey(
                    "The key file contains a private key. Use only the public key: "
                        + "openssl pkey -in FILE -pubout"
                )
            default:
                throw .unusableKey(
                    "PEM block \(index + 1) of the key file is neither a PUBLIC KEY nor a "
                        + "CERTIFICATE."
                )
            }
            let name = "PEM block \(index + 1) of the key file"
            let key = try PublicKey(handle, name, for: allowed, limits)
            keys.append(TokenKey(id: nil, material: .publicKey(key)))
        }
        return keys
    }
}
