// AlgorithmTests: the algorithms that are accepted only if they are named.

import Testing
import TidelineCore
import TidelineTokens

struct AlgorithmTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var algorithm: TokenAlgorithm
        var privateKey: String
        var sources: [TokenKeySource]

        var testDescription: String { algorithm.rawValue }
    }

    static let cases: [Case] =
        [.rs384, .rs512, .ps256, .ps384, .ps512].map {
            Case(
                algorithm: $0,
                privateKey: TestKeys.rsaPrivate,
                sources: [.pem(TestKeys.rsaPublic), .pem(TestKeys.rsaCertificate)]
            )
        } + [
            Case(
                algorithm: .es384,
                privateKey: p384Private,
                sources: [.pem(p384Public), .jwks(p384Set)]
            ),
            Case(
                algorithm: .edDSA,
                privateKey: ed25519Private,
                sources: [.pem(ed25519Public), .jwks(ed25519Set)]
            ),
        ]

    @Test(
        "A token is accepted only if its algorithm is configured",
        arguments: cases
    )
    func isAcceptedIfNamed(_ example: Case) throws {
        let signer = try TokenSigner(
            privateKey: Array(example.privateKey.utf8),
            algorithm: example.algorithm
        )
        #expect(signer.algorithm == example.algorithm)
        let token = try signer.sign(TokenClaims(subject: "anna"))
        for source in example.sources {
            let verifier = try TokenVerifier(keys: [source], algorithms: [example.algorithm])
            #expect(try verifier.verify(token, now: .noon).subject == "anna")
            let parts = Forge.parts(token)
            var signature = Forge.bytes(base64: parts[2])
            signature[signature.count / 2] ^= 1
            let forged = "\(parts[0]).\(parts[1]).\(Forge.base64(signature))"
            #expect(rejection(of: forged, by: verifier)?.code == .wrongSignature)
        }
        let usual = try TokenVerifier(keys: [.secret(TestKeys.secret), .pem(TestKeys.rsaPublic)])
        #expect(rejection(of: token, by: usual)?.code == .algorithmNotAllowed)
    }

    @Test("A key is used only for the algorithm that is configured for it")
    func aKeyKeepsItsAlgorithm() throws {
        let signer = try TokenSigner(privateKey: Array(Self.p384Private.utf8), algorithm: .es384)
        let token = try signer.sign(TokenClaims(subject: "anna"))
        let set = Self.p384Set.replacing("\"kty\"", with: "\"alg\":\"ES256\",\"kty\"")
        #expect(throws: TokenError.self) {
            try TokenVerifier(keys: [.jwks(set)], algorithms: [.es384])
        }
        let named = Self.p384Set.replacing("\"kty\"", with: "\"alg\":\"ES384\",\"kty\"")
        let verifier = try TokenVerifier(keys: [.jwks(named)], algorithms: [.es384])
        #expect(try verifier.verify(token, now: .noon).subject == "anna")
    }

    @Test("The user's name is read from the configured claim")
    func anotherClaimNamesTheUser() throws {
        let verifier = try TokenVerifier(keys: [Scheme.hs256.source], userClaim: "email")
        let signer = try Scheme.hs256.signer()
        let claims = TokenClaims(subject: "1234", other: ["email": "anna@example.org"])
        let read = try verifier.verify(try signer.sign(claims), now: .noon)
        #expect(verifier.user(of: read) == "anna@example.org")
        for other: Row in [[:], ["email": ""], ["email": 5]] {
            let token = try signer.sign(TokenClaims(subject: "1234", other: other))
            let error = rejection(of: token, by: verifier)
            #expect(error?.code == .missingSubject)
            #expect(error?.message.contains("email") == true)
        }
    }

    static let p384Private = """
        -----BEGIN PRIVATE KEY-----
        MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDCgVO/EWcx3wqyS5FXq
        1531zQLjTXl4Ehr1EQgz+Vrw1ZgUynKKUA/S5PAYpg3VaqihZANiAARp8gWBd73p
        7v/V4hK6uVOJhXIOdBxn2w1/7hRyh1xgeuDYYMEZ4FJhNfOP2TK4Od35cP9TJ8Io
        /lOB1uDCXkQMnYESvhvRC/eEmTWlIQO0GPiEmXRDOqozKVwmaaIeDWA=
        -----END PRIVATE KEY-----
        """

    static let p384Public = """
        -----BEGIN PUBLIC KEY-----
        MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEafIFgXe96e7/1eISurlTiYVyDnQcZ9sN
        f+4UcodcYHrg2GDBGeBSYTXzj9kyuDnd+XD/UyfCKP5Tgdbgwl5EDJ2BEr4b0Qv3
        hJk1pSEDtBj4hJl0QzqqMylcJmmiHg1g
        -----END PUBLIC KEY-----
        """

    static let p384Set = """
        {"keys":[{"kty":"EC","crv":"P-384","x":"afIFgXe96e7_1eISurlTiYVyDnQcZ9sNf-4UcodcYHrg2GDBGeBSYTXzj9kyuDnd",
        "y":"-XD_UyfCKP5Tgdbgwl5EDJ2BEr4b0Qv3hJk1pSEDtBj4hJl0QzqqMylcJmmiHg1g"}]}
        """

    static let ed25519Private = """
        -----BEGIN PRIVATE KEY-----
        MC4CAQAwBQYDK2VwBCIEIAAGUbifZlaRGyXmxolAiNanz7Bf94wjMjzTCqAQZe41
        -----END PRIVATE KEY-----
        """

    static let ed25519Public = """
        -----BEGIN PUBLIC KEY-----
        MCowBQYDK2VwAyEADfkH4U5lrISlxx1rKESxVsS5w2qBOyEpWUuY9NZ0r00=
        -----END PUBLIC KEY-----
        """

    static let ed25519Set = """
        {"keys":[{"kty":"OKP","crv":"Ed25519","x":"DfkH4U5lrISlxx1rKESxVsS5w2qBOyEpWUuY9NZ0r00"}]}
        """
}
