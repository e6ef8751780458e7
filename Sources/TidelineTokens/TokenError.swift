// TokenError: the reason why a token is not accepted, or a key cannot be used.
//
// A message names the reason in fixed words. It never contains a part of a token or of a key, and
// only characters that RFC 6750 allows in the error_description of WWW-Authenticate.

import TidelineCore

/// An error that explains why a token is rejected, or a key or a setting cannot be used.
package struct TokenError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Code: String, Hashable, Sendable, CaseIterable {
        /// The token does not consist of three parts in base64url with the expected JSON.
        case malformed
        /// The token is longer than ``TokenLimits/tokenBytesMax``.
        case tooLarge
        /// The token's `alg` is `none`, in any letter case.
        case unsigned
        /// The token's `alg` is not allowed.
        case algorithmNotAllowed
        /// The token's header has `crit`, but the server supports no extensions.
        case unknownExtension
        /// No key has the token's `kid`, or none fits its algorithm.
        case unknownKey
        /// No matching key made this signature.
        case wrongSignature
        case expired
        case notYetValid
        case issuedInTheFuture
        case wrongIssuer
        case wrongAudience
        case missingSubject
        /// A registered claim has the wrong type.
        case wrongClaim
        /// A key cannot be read or is too weak, which is not the fault of the caller.
        case unusableKey
        /// A setting is out of range, which is not the fault of the caller.
        case wrongSetting
    }

    package let code: Code
    package let message: String

    package init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    package var description: String { message }
}

extension TokenError {
    static func malformed(_ part: String, _ fault: JSONError) -> TokenError {
        TokenError(.malformed, "The \(part) is not valid JSON: \(fault).")
    }

    static func notBase64(_ part: String) -> TokenError {
        TokenError(.malformed, "The \(part) of the token is not base64url without padding.")
    }

    static let notThreeParts = TokenError(
        .malformed,
        "A token must have three parts with a '.' between them."
    )

    static func tooLarge(_ limit: Int) -> TokenError {
        TokenError(.tooLarge, "The token is longer than \(limit) bytes.")
    }

    static let unsigned = TokenError(.unsigned, "A token without signature is not accepted.")

    static func algorithmNotAllowed(_ allowed: Set<TokenAlgorithm>) -> TokenError {
        TokenError(
            .algorithmNotAllowed,
            "The algorithm of the token is not allowed. Allowed: \(TokenAlgorithm.list(allowed))."
        )
    }

    static let unknownExtension = TokenError(
        .unknownExtension,
        "The token requires an extension (crit) that the server does not support."
    )

    static let unknownKey = TokenError(
        .unknownKey,
        "No key matches the algorithm and the key id of the token."
    )

    static let wrongSignature = TokenError(.wrongSignature, "The signature of the token is wrong.")
    static let expired = TokenError(.expired, "The token has expired. Get a new one.")
    static let notYetValid = TokenError(
        .notYetValid,
        "The token is not valid yet (nbf). Compare the clocks."
    )

    static let issuedInTheFuture = TokenError(
        .issuedInTheFuture,
        "The token was issued in the future (iat). Compare the clocks."
    )

    static let wrongIssuer = TokenError(.wrongIssuer, "The token is from another issuer (iss).")
    static let wrongAudience = TokenError(
        .wrongAudience,
        "The token is for another audience (aud)."
    )

    static let missingSubject = missingUser("sub")

    static func missingUser(_ claim: String) -> TokenError {
        TokenError(
            .missingSubject,
            "The token has no user: \(claim) is missing, empty or not a string."
        )
    }

    static func wrongClaim(_ name: String, _ expected: String) -> TokenError {
        TokenError(.wrongClaim, "The claim \(name) of the token is not \(expected).")
    }

    static func unusableKey(_ reason: String) -> TokenError {
        TokenError(.unusableKey, reason)
    }

    static func wrongSetting(_ reason: String) -> TokenError {
        TokenError(.wrongSetting, reason)
    }
}
