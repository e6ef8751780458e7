// SignedToken: parses tokens.
//
// Only alg, kid and crit of the header are read. Keys and addresses of keys in a token (jwk, jku,
// x5c, x5u) are ignored.

import TidelineCore

/// A token in the compact form of RFC 7515, split into its parts, none of which is trusted yet.
struct SignedToken {
    let algorithm: TokenAlgorithm
    let keyID: String?
    let signature: [UInt8]
    /// The payload, which is parsed as JSON only after the signature was checked.
    let payload: [UInt8]
    private let bytes: [UInt8]
    private let signedCount: Int

    /// The signed bytes as they arrived: header, '.', payload.
    var signed: ArraySlice<UInt8> { bytes[..<signedCount] }

    init(
        _ text: String,
        allowed: Set<TokenAlgorithm>,
        limits: TokenLimits
    ) throws(TokenError) {
        guard text.utf8.count <= limits.tokenBytesMax else { throw .tooLarge(limits.tokenBytesMax) }
        bytes = Array(text.utf8)
        let parts = bytes.split(
            separator: UInt8(ascii: "."),
            maxSplits: 3,
            omittingEmptySubsequences: false
        )
        guard parts.count == 3 else { throw .notThreeParts }
        guard let header = Base64URL.decode(parts[0]) else { throw .notBase64("header") }
        guard let payload = Base64URL.decode(parts[1]) else { throw .notBase64("payload") }
        guard let signature = Base64URL.decode(parts[2]) else { throw .notBase64("signature") }
        let read = try TokenHeader(json: header)
        guard let algorithm = TokenAlgorithm(rawValue: read.algorithm), allowed.contains(algorithm)
        else { throw .algorithmNotAllowed(allowed) }
        self.algorithm = algorithm
        keyID = read.keyID
        self.payload = payload
        self.signature = signature
        signedCount = parts[1].endIndex
    }
}

/// The JSON members of a token's header that are used.
private struct TokenHeader {
    var algorithm: String
    var keyID: String?

    init(json bytes: [UInt8]) throws(TokenError) {
        var algorithm: String?
        var keyID: String?
        var isExtended = false
        try StrictJSON.object(bytes, "header of the token") { reader, name, token in
            switch name {
            case "alg": algorithm = try reader.string(token, "alg")
            case "kid": keyID = try reader.string(token, "kid")
            case "crit":
                isExtended = true
                try reader.skip(token)
            default: try reader.skip(token)
            }
        }
        guard let algorithm else {
            throw TokenError(.malformed, "The header of the token has no alg.")
        }
        guard algorithm.lowercased() != "none" else { throw .unsigned }
        guard !isExtended else { throw .unknownExtension }
        self.algorithm = algorithm
        self.keyID = keyID
    }
}
