// TokenCheck: tokens, with keys of all three kinds, and the keys themselves.

import Foundation
import TidelineCore
import TidelineServerCore
import TidelineTokens

final class TokenCheck {
    /// The tokens that are signed with the keys below; all others must be rejected.
    private static let issued: Set<String> = [
        """
        eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbm5hIiwiaXNzIjoiaHR0cHM6Ly9pZC5\
        leGFtcGxlIiwiYXVkIjoidG9kbyIsImV4cCI6NDEwMjQ0NDgwMH0.mU1ynp-oCbMSQ_Rl7Xecpfhmumm\
        _cLYpVdX2gwHUwBM
        """,
        """
        eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbm5hIiwiaXNzIjoiaHR0cHM6Ly9pZC5\
        leGFtcGxlIiwiYXVkIjoidG9kbyIsImV4cCI6NDEwMjQ0NDgwMH0.ND-m9lDqiGEt28KVl6e1EUwxwQX\
        M9S_0KpiukP_cHP50VDAxDbk2EWFCZQSXyHV6YV9383F_WCRMOrHZI-vDvCBSea0i4vVF_kqtILRj_GG\
        _zEx4VnhHKRCK9lr4eBl2GGi0ZtG9xLFQXCiM_DwyS_d7B4mE9glD8f4Sfjtnc4Faijz63UrPP3ktAR4\
        0daW4suO0sffXJv-9t1H9d37dZTaIRVg4od1Aqb5I_CkYHZ8PKa6Iz5H9KgUgJAh3FoUzx1uEGcBakGq\
        jbUkizvqO7k1piXpRwL98o9Z11lNj8s_9XbCrimggWpA-PDQUwUIwzvbG0sAGt2r1_vYnFowO1w
        """,
        """
        eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbm5hIiwiaXNzIjoiaHR0cHM6Ly9pZC5\
        leGFtcGxlIiwiYXVkIjoidG9kbyIsImV4cCI6NDEwMjQ0NDgwMH0.-LDcDf8wLbxMN0cXfVrrpn7EsNv\
        67Ue3MNdErixayaXwxnV7tn8xjuMUlKcaERKi_fFQejzf8JNF-fCxJSh0Dg
        """,
        """
        eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJiXHUwMGU5YSIsIm5iZiI6MCwiaWF0IjoxLCJyb2xlcyI6WyJ\
        hIl0sIm4iOjEuNX0.96DUK4Uu5igi4ya300GqgdJsyGzUao9ZysoRw41Rrv4
        """,
    ]

    private static let secret = Array("a secret of thirty-two bytes or so".utf8)

    private static let publicKeys = """
        -----BEGIN PUBLIC KEY-----
        MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEApHnSkQOJQ2ZAj9Y9WsQo
        NGF4hw1BXYkifvt6TsJ19Fa0VFEa9IlpTme4tmz2TUUeHf/6AqIYejL4eRS8Rpgb
        YqgISaHVS/o1c4fXcth+56l7o45DCKEl5FOvvDHt8uTxYwBsHxaw1WKhIuKqT82Q
        FG2SPlQbtXQRZLIOlCE40GoZli8YUqrKALgxqiihQfzzxujZaeAhqB+XrKfavMfn
        ELeoaakM3amaaSkj2O0kQSUtcQyDU6l8oVMcsWsTt3u91AcQb9nyBNLHEoeP22QF
        n2Ui5f07HXMwtCWoQR0ZvypnXH2frEtzYnb8Yzzm/ssKklMZfuOQ9NXGxbUwjfOA
        vQIDAQAB
        -----END PUBLIC KEY-----
        -----BEGIN PUBLIC KEY-----
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE1CtgYEleNDJc/lVXpsd/YHdWMSDD
        GZUAlU6NdrKMOb8GT2UxgSbZo7iDP8h1E28PjZNfztO9g52H4A0omiBFVw==
        -----END PUBLIC KEY-----
        """

    private let verifier: TokenVerifier
    private let authenticator: Authenticator

    init() throws {
        let verifier = try TokenVerifier(
            keys: [.secret(Self.secret), .pem(Array(Self.publicKeys.utf8))]
        )
        self.verifier = verifier
        authenticator = Authenticator { token, now throws(TokenRejection) in
            guard let claims = try? verifier.verify(token, now: Timestamp(microseconds: now)) else {
                throw TokenRejection("no")
            }
            return CheckedToken(user: User(id: claims.subject))
        }
    }

    private static let now = Timestamp(microseconds: 1_800_000_000_000_000)

    func run(_ input: UnsafeBufferPointer<UInt8>) throws {
        let rest = Array(input.dropFirst())
        let text = String(decoding: rest, as: UTF8.self)
        do {
            switch input[0] & 7 {
            case 1: _ = try TokenVerifier(keys: [.jwks(rest)])
            case 2: _ = try TokenVerifier(keys: [.pem(rest)])
            case 3: try claims(rest)
            case 4: try header(text)
            default:
                _ = try verifier.verify(text, now: Self.now)
                try demand(Self.issued.contains(text), "only a key's owner makes tokens")
            }
        } catch let error as TokenError {
            try demand(!"\(error)".isEmpty, "a refusal says why")
        }
    }

    /// Signs arbitrary claims and verifies the token.
    private func claims(_ json: [UInt8]) throws {
        let claims = try TokenClaims(json: json)
        guard let signer = try? TokenSigner(secret: Self.secret),
            let token = try? signer.sign(claims)
        else { return }
        guard let again = try? verifier.verify(token, now: Self.now) else { return }
        try demand(again.subject == claims.subject, "claims come back")
        try demand(again.audience == claims.audience, "claims come back")
    }

    private func header(_ text: String) throws {
        var fields = HTTPFields()
        for line in text.split(separator: "\n") {
            let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            fields.append(String(parts[0]), parts.count > 1 ? String(parts[1]) : "")
        }
        do {
            _ = try authenticator.user(of: fields, now: Self.now.microseconds)
        } catch let error as ServerError {
            try demand(error.status == 401, "a bad token is 401")
        }
    }
}
