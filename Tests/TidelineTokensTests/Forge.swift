// Forge: tokens with any header, payload and signature, and a verifier's results for them.

import CCrypto
import Foundation
import TidelineCore
import TidelineTokens

enum Forge {
    static let header = #"{"alg":"HS256","typ":"JWT"}"#
    static let payload = #"{"sub":"anna"}"#

    /// Returns a token that is signed with HMAC, with any algorithm in its header.
    static func token(
        header: String = header,
        payload: String = payload,
        secret: [UInt8] = TestKeys.secret
    ) -> String {
        token(header: Array(header.utf8), payload: Array(payload.utf8), secret: secret)
    }

    static func token(header: [UInt8], payload: [UInt8], secret: [UInt8]) -> String {
        let signed = base64(header) + "." + base64(payload)
        return signed + "." + base64(hmac(signed, secret))
    }

    static func hmac(_ text: String, _ secret: [UInt8]) -> [UInt8] {
        let message = Array(text.utf8)
        var code = [UInt8](repeating: 0, count: 32)
        var count: UInt32 = 0
        let size = Int32(secret.count)
        _ = HMAC(EVP_sha256(), secret, size, message, message.count, &code, &count)
        return code
    }

    static func base64(_ bytes: some Sequence<UInt8>) -> String {
        Data(bytes).base64EncodedString()
            .replacingOccurrences(of: "+", with: "-")
            .replacingOccurrences(of: "/", with: "_")
            .replacingOccurrences(of: "=", with: "")
    }

    static func bytes(base64 text: some StringProtocol) -> [UInt8] {
        var text = text.replacingOccurrences(of: "-", with: "+")
            .replacingOccurrences(of: "_", with: "/")
        while text.utf8.count % 4 != 0 { text += "=" }
        return Array(Data(base64Encoded: text) ?? Data())
    }

    static func parts(_ token: String) -> [String] {
        token.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
    }
}

extension Timestamp {
    /// 2026-11-20T20:32:22Z.
    static let noon = Timestamp(seconds: 1_795_206_742)

    init(seconds: Int64) {
        self.init(microseconds: seconds * 1_000_000)
    }
}

/// The reason why `verifier` rejects a token; nil if it accepts it.
func rejection(
    of token: String,
    by verifier: TokenVerifier,
    at now: Timestamp = .noon
) -> TokenError? {
    do {
        _ = try verifier.verify(token, now: now)
        return nil
    } catch {
        return error
    }
}

/// The reason why a verifier cannot be created; nil if it can.
func rejection(of sources: [TokenKeySource]) -> TokenError? {
    do {
        _ = try TokenVerifier(keys: sources)
        return nil
    } catch {
        return error
    }
}

extension TokenKeySource {
    static func pem(_ text: String) -> TokenKeySource { .pem(Array(text.utf8)) }
    static func jwks(_ text: String) -> TokenKeySource { .jwks(Array(text.utf8)) }
}

/// The three signing algorithms, each with its verification key.
enum Scheme: String, CaseIterable, Sendable {
    case hs256
    case rs256
    case es256

    func signer(keyID: String? = nil) throws -> TokenSigner {
        switch self {
        case .hs256: try TokenSigner(secret: TestKeys.secret, keyID: keyID)
        case .rs256: try TokenSigner(privateKey: Array(TestKeys.rsaPrivate.utf8), keyID: keyID)
        case .es256: try TokenSigner(privateKey: Array(TestKeys.ecPrivate.utf8), keyID: keyID)
        }
    }

    var source: TokenKeySource {
        switch self {
        case .hs256: .secret(TestKeys.secret)
        case .rs256: .pem(TestKeys.rsaPublic)
        case .es256: .pem(TestKeys.ecPublic)
        }
    }

    /// A key of the same type, from another pair.
    var otherSource: TokenKeySource {
        switch self {
        case .hs256: .secret(Array("another secret of enough bytes...".utf8))
        case .rs256: .pem(TestKeys.otherRSAPublic)
        case .es256: .pem(TestKeys.otherECPublic)
        }
    }

    var algorithm: TokenAlgorithm {
        switch self {
        case .hs256: .hs256
        case .rs256: .rs256
        case .es256: .es256
        }
    }
}
