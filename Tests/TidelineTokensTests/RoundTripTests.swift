// RoundTripTests: a token from a signer is read by a verifier with the other half of the key.

import Testing
import TidelineCore
import TidelineTokens

struct RoundTripTests {
    static let claims = TokenClaims(
        subject: "anna \u{1F33F} \"quoted\"",
        issuer: "https://id.example",
        audience: ["todo"],
        expiresAt: Timestamp(seconds: 1_795_210_000),
        notBefore: Timestamp(seconds: 1_795_206_000),
        issuedAt: Timestamp(seconds: 1_795_206_742),
        other: [
            "admin": true, "level": 9_007_199_254_740_993, "share": 0.5, "none": nil,
            "groups": .json(JSON(checkedText: #"["a",{"b":[1]}]"#)), "name": "Anna",
        ]
    )

    @Test("A signed token is verified with the same claims", arguments: Scheme.allCases)
    func claimsRoundTrip(scheme: Scheme) throws {
        let signer = try scheme.signer()
        #expect(signer.algorithm == scheme.algorithm)
        let verifier = try TokenVerifier(
            keys: [scheme.source],
            issuer: "https://id.example",
            audience: "todo"
        )
        #expect(verifier.algorithms == [scheme.algorithm])
        let token = try signer.sign(Self.claims)
        #expect(try verifier.verify(token, now: .noon) == Self.claims)
    }

    @Test("A token with few claims or several audiences is verified with the same claims")
    func fewAndManyClaimsRoundTrip() throws {
        let signer = try Scheme.hs256.signer()
        let verifier = try TokenVerifier(keys: [Scheme.hs256.source])
        let few = TokenClaims(subject: "a")
        #expect(try verifier.verify(try signer.sign(few), now: .noon) == few)
        let many = TokenClaims(subject: "a", audience: ["x", "y \"z\""])
        #expect(try verifier.verify(try signer.sign(many), now: .noon) == many)
    }

    @Test(
        "Keys in several PEM formats sign and verify a token",
        arguments: [
            (TestKeys.rsaPrivate, TestKeys.rsaCertificate),
            (TestKeys.rsaTraditional, TestKeys.rsaPublic),
            (TestKeys.ecPrivate, TestKeys.ecCertificate),
            (TestKeys.otherECPrivate, TestKeys.otherECPublic),
            (TestKeys.ecPrivate, TestKeys.otherECPublic + "\n" + TestKeys.ecPublic),
            (TestKeys.ecPrivate, "Comment\r\n" + TestKeys.rsaPublic + "\r\n\n" + TestKeys.ecPublic),
        ]
    )
    func keyFormats(privateKey: String, publicKeys: String) throws {
        let signer = try TokenSigner(privateKey: Array(privateKey.utf8))
        let verifier = try TokenVerifier(keys: [.pem(publicKeys)])
        let token = try signer.sign(TokenClaims(subject: "anna"))
        #expect(try verifier.verify(token, now: .noon).subject == "anna")
    }

    @Test("Times in a token are truncated to seconds") func timesAreTruncatedToSeconds() throws {
        let signer = try Scheme.hs256.signer()
        let verifier = try TokenVerifier(keys: [Scheme.hs256.source])
        let claims = TokenClaims(
            subject: "a",
            notBefore: Timestamp(microseconds: -1),
            issuedAt: Timestamp(microseconds: 1_999_999)
        )
        let read = try verifier.verify(try signer.sign(claims), now: .noon)
        #expect(read.notBefore == Timestamp(seconds: -1))
        #expect(read.issuedAt == Timestamp(seconds: 1))
    }

    @Test("Invalid claims are not signed") func invalidClaimsAreNotSigned() throws {
        let signer = try Scheme.hs256.signer()
        func code(_ claims: TokenClaims) -> TokenError.Code? {
            do {
                _ = try signer.sign(claims)
                return nil
            } catch {
                return error.code
            }
        }
        #expect(code(TokenClaims(subject: "")) == .missingSubject)
        #expect(code(TokenClaims(subject: "a", other: ["exp": 1])) == .wrongSetting)
        let long = String(repeating: "x", count: 16 * 1024)
        #expect(code(TokenClaims(subject: long)) == .tooLarge)
    }

    /// One verifier, many threads: with the thread sanitizer this also checks its handles.
    @Test("One verifier verifies tokens concurrently", arguments: Scheme.allCases)
    func verificationsRunConcurrently(scheme: Scheme) async throws {
        let token = try scheme.signer().sign(Self.claims)
        let verifier = try TokenVerifier(keys: [scheme.otherSource, scheme.source])
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    for _ in 0..<10 {
                        let error = rejection(of: token, by: verifier)
                        #expect(error == nil)
                    }
                }
            }
        }
    }
}

extension JSON {
    /// For literals in tests.
    init(checkedText text: String) {
        self = (try? JSON(text)) ?? JSON(checked: "null")
    }
}
