// TokenRights: shows whether a new token has different rights.

import Foundation
import TidelineCore

/// A hash of a token's claims, which changes with the caller's rights.
enum TokenRights {
    /// The claims that differ between tokens with the same rights (RFC 7519 section 4.1, OpenID
    /// Connect).
    private static let claimsOfOneToken: Set<String> = [
        "iat", "exp", "nbf", "jti", "auth_time", "nonce", "at_hash", "c_hash", "sid",
    ]

    /// - Returns: The hash of the claims, or of the whole token if its claims cannot be decoded.
    static func text(of token: String) -> String {
        let bytes = claims(of: token) ?? Array(token.utf8)
        return SHA256.hex(Array(SHA256.hash(bytes).prefix(8)))
    }

    private static func claims(of token: String) -> [UInt8]? {
        let parts = token.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let bytes = Base64URL.decode(parts[1].utf8),
            var claims = try? JSONSerialization.jsonObject(with: Data(bytes)) as? [String: Any]
        else { return nil }
        for name in claimsOfOneToken { claims[name] = nil }
        let sorted = try? JSONSerialization.data(withJSONObject: claims, options: .sortedKeys)
        return sorted.map { Array($0) }
    }
}
