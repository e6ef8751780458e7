// KeyTests: which keys are accepted, which key verifies a token, and which settings are valid.

import Testing
import TidelineCore
import TidelineTokens

struct KeyTests {
    static let cases: [(TokenKeySource, String)] = [
        (.secret([]), "0 bytes"),
        (.secret(Array(TestKeys.secret.dropLast())), "31 bytes"),
        (.secret(Array(TestKeys.rsaPublic.utf8)), "PEM"),
        (.secret(Array(("\n" + TestKeys.ecCertificate + "\n").utf8)), "PEM"),
        (.pem(""), "no PEM block"),
        (.pem("-----BEGIN PUBLIC KEY-----\n"), "no PEM block"),
        (.pem("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"), "cannot be read"),
        (.pem("-----BEGIN CERTIFICATE-----\n\n-----END CERTIFICATE-----\n"), "cannot be read"),
        (.pem("-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n"), "neither a PUBLIC KEY"),
        (.pem(TestKeys.rsaPrivate), "private key"),
        (.pem(TestKeys.rsaTraditional), "private key"),
        (.pem(TestKeys.ecEncrypted), "private key"),
        (.pem(TestKeys.ecPublic + "\n" + TestKeys.ecPrivate), "private key"),
        (.pem(RejectedKeys.rsa1024), "1024 bits"),
        (.pem(TestKeys.ecPublic + "\n" + RejectedKeys.rsa1024), "PEM block 2"),
        (.pem(RejectedKeys.rsaPSS), "neither an RSA key"),
        (.pem(RejectedKeys.p384), "neither an RSA key"),
        (.pem(RejectedKeys.ed25519), "neither an RSA key"),
        (.jwks(""), "not valid JSON"),
        (.jwks("[]"), "not valid JSON"),
        (.jwks("{}"), "no member 'keys'"),
        (.jwks(#"{"keys":{}}"#), "not an array"),
        (.jwks(#"{"keys":[]}"#), "no key"),
        (.jwks(#"{"keys":[1]}"#), "not valid JSON"),
        (.jwks(#"{"keys":[{"kty":"oct","kty":"oct"}]}"#), "duplicate"),
        (.jwks(#"{"keys":[{"kty":"oct"}]}"#), "has no 'k'"),
        (.jwks(#"{"keys":[{"kty":"oct","k":"AA=="}]}"#), "base64url"),
        (.jwks(#"{"keys":[{"kty":"oct","k":"AA"}]}"#), "1 bytes"),
        (.jwks(#"{"keys":[{"kty":"oct","k":1}]}"#), "a string"),
        (.jwks(#"{"keys":[{"kty":"RSA","n":"AQAB"}]}"#), "has no 'e'"),
        (.jwks(#"{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]}"#), "bits"),
        (.jwks(#"{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}"#), "32 bytes each"),
        (.jwks(offCurve), "cannot be read"),
        (.jwks(evenModulus), "not a valid public key"),
        (.jwks(RFCVectorTests.rsaKeys.replacing("AQAB", with: "AQ")), "not a valid public key"),
        (.jwks(RFCVectorTests.rsaKeys.replacing("AQAB", with: "Ag")), "not a valid public key"),
        (.jwks(RFCVectorTests.rsaKeys.replacing("AQAB", with: "AA")), "not a valid public key"),
        (.pem(RejectedKeys.otherGenerator), "neither an RSA key"),
        (.jwks(#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AA"}]}"#), "no key"),
        (.jwks(#"{"keys":[{"kty":"EC","crv":"P-384","x":"AA","y":"AA"}]}"#), "no key"),
        (.jwks(#"{"keys":[{"kty":"oct","k":"AA","use":"enc"}]}"#), "no key"),
        (.jwks(#"{"keys":[{"kty":"oct","k":"AA","alg":"HS512"}]}"#), "no key"),
        (.jwks(#"{"keys":[{"kty":"RSA","n":"AA","alg":"HS256"}]}"#), "no key"),
        (.jwks(#"{"keys":[{"kty":"oct","k":"AA","key_ops":["encrypt"]}]}"#), "no key"),
        (.jwks(#"{"keys":[\#(String(repeating: "{},", count: 64)){}]}"#), "more than 64"),
    ]

    /// One bit of y differs.
    static let offCurve = """
        {"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y":"y_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}
        """

    static let evenModulus = """
        {"keys":[{"kty":"RSA","n":"\(Forge.base64([UInt8](repeating: 0xF0, count: 256)))",
        "e":"AQAB"}]}
        """

    @Test("An unusable key is rejected with the reason", arguments: cases)
    func rejectedKeys(source: TokenKeySource, words: String) throws {
        let error = try #require(rejection(of: [source]))
        #expect(error.code == .unusableKey)
        #expect(error.message.contains(words), "\(error.message)")
    }

    @Test(
        "A private key that is encrypted, public, empty or of another curve is rejected",
        arguments: [TestKeys.ecEncrypted, TestKeys.ecPublic, "", RejectedKeys.p384]
    )
    func rejectedPrivateKeys(pem: String) {
        #expect(throws: TokenError.self) { try TokenSigner(privateKey: Array(pem.utf8)) }
    }

    @Test("A secret from a file loses one final line break unless it is binary")
    func secretsFromFiles() {
        let secret = TestKeys.secret
        for end in [[], [0x0A], [0x0D, 0x0A]] as [[UInt8]] {
            #expect(TokenKeySource.secretBytes(file: secret + end) == secret)
        }
        #expect(TokenKeySource.secretBytes(file: secret + [0x0A, 0x0A]) == secret + [0x0A])
        let binary = [0x00, 0xFF] + secret + [0x0A]
        #expect(TokenKeySource.secretBytes(file: binary) == binary)
    }

    @Test("The description of a key source does not show the secret") func sourcesAreNotPrinted() {
        let source = TokenKeySource.secret(TestKeys.secret)
        #expect("\(source)" == "a secret")
        #expect(String(reflecting: [source]) == "[a secret]")
    }

    @Test("A verifier with unusable settings is rejected") func settings() throws {
        let source = Scheme.hs256.source
        for leeway in [.seconds(-1), .seconds(601)] as [Duration] {
            let error = #expect(throws: TokenError.self) {
                try TokenVerifier(keys: [source], leeway: leeway)
            }
            #expect(error?.code == .wrongSetting)
        }
        for algorithms in [[], [.rs256], [.rs256, .es256]] as [Set<TokenAlgorithm>] {
            let error = #expect(throws: TokenError.self) {
                try TokenVerifier(keys: [source], algorithms: algorithms)
            }
            #expect(error?.code == .unusableKey)
        }
        #expect(rejection(of: [])?.code == .unusableKey)
        let many = [TokenKeySource](repeating: source, count: 65)
        #expect(rejection(of: many)?.code == .wrongSetting)
    }

    @Test("A token with an algorithm that is not allowed is rejected")
    func allowedAlgorithms() throws {
        let verifier = try TokenVerifier(
            keys: Scheme.allCases.map(\.source),
            algorithms: [.es256, .rs256]
        )
        #expect(verifier.algorithms == [.es256, .rs256])
        let claims = TokenClaims(subject: "anna")
        for scheme in Scheme.allCases {
            let error = rejection(of: try scheme.signer().sign(claims), by: verifier)
            #expect(error?.code == (scheme == .hs256 ? .algorithmNotAllowed : nil))
        }
    }

    @Test("The key ID of a token selects the key") func theKeyIDSelectsTheKey() throws {
        let other = Array("another secret of enough bytes...".utf8)
        let set = """
            {"keys":[
                {"kty":"oct","kid":"a","use":"sig","alg":"HS256","key_ops":["sign","verify"],
                 "k":"\(Forge.base64(TestKeys.secret))"},
                {"kty":"oct","kid":"b","k":"\(Forge.base64(other))"},
                {"kty":"EC","crv":"P-256","kid":"c",
                 "x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
                 "y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}
            ]}
            """
        let verifier = try TokenVerifier(keys: [.jwks(set)])
        func code(_ kid: String?, _ secret: [UInt8]) throws -> TokenError.Code? {
            let signer = try TokenSigner(secret: secret, keyID: kid)
            return rejection(of: try signer.sign(TokenClaims(subject: "anna")), by: verifier)?.code
        }
        #expect(try code("a", TestKeys.secret) == nil)
        #expect(try code("b", other) == nil)
        #expect(try code(nil, TestKeys.secret) == nil)
        #expect(try code(nil, other) == nil)
        #expect(try code("a", other) == .wrongSignature)
        #expect(try code("b", TestKeys.secret) == .wrongSignature)
        #expect(try code("c", other) == .unknownKey, "the key is for ES256")
        #expect(try code("d", other) == .unknownKey)
        #expect(try code("", other) == .unknownKey)

        let mixed = try TokenVerifier(keys: [.jwks(set), .secret(TestKeys.secret.reversed())])
        let signer = try TokenSigner(secret: TestKeys.secret.reversed(), keyID: "d")
        let token = try signer.sign(TokenClaims(subject: "anna"))
        #expect(rejection(of: token, by: mixed) == nil, "the secret has no id to compare")
    }
}
