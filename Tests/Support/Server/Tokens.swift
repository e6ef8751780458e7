// Tokens: a token issuer whose secret the server under test has.

package import TidelineCore
import TidelineServer
package import TidelineServerCore
import TidelineTokens

package enum Tokens {
    package static let secret = Array("0123456789abcdef0123456789abcdef".utf8)
    package static let issuer = "https://id.example"
    package static let audience = "todo"
    /// The start of `TestClock` in seconds.
    package static let start: Int64 = 1_800_000_000

    package static func authenticator() throws -> Authenticator {
        let verifier = try TokenVerifier(
            keys: [.secret(secret)],
            issuer: issuer,
            audience: audience,
            leeway: .seconds(60)
        )
        return Authenticator(verifier, leeway: 60_000_000)
    }

    /// Returns a token; times are seconds after the start of the clock.
    package static func make(
        _ subject: String,
        secret: [UInt8] = secret,
        issuer: String? = issuer,
        audience: String? = audience,
        expires: Int64? = 3600,
        notBefore: Int64? = nil
    ) throws -> String {
        func time(_ seconds: Int64?) -> Timestamp? {
            seconds.map { Timestamp(microseconds: (start + $0) * 1_000_000) }
        }
        let claims = TokenClaims(
            subject: subject,
            issuer: issuer,
            audience: audience.map { [$0] } ?? [],
            expiresAt: time(expires),
            notBefore: time(notBefore)
        )
        return try TokenSigner(secret: secret).sign(claims)
    }

    package static func headers(_ subject: String) throws -> HTTPFields {
        ["X-ZUMO-AUTH": try make(subject)]
    }
}
