// SignatureTests: signatures that were truncated, moved to another header or created with another key.

import Testing
import TidelineCore
import TidelineTokens

struct SignatureTests {
    static let claims = TokenClaims(subject: "anna", issuer: "joe", audience: ["todo"])

    @Test("A token that another key signed is rejected", arguments: Scheme.allCases)
    func anotherKey(scheme: Scheme) throws {
        let verifier = try TokenVerifier(keys: [scheme.otherSource])
        let token = try scheme.signer().sign(Self.claims)
        #expect(rejection(of: token, by: verifier)?.code == .wrongSignature)
    }

    @Test("A truncated, extended or replaced signature is rejected", arguments: Scheme.allCases)
    func truncatedAndExtendedSignatures(scheme: Scheme) throws {
        let verifier = try TokenVerifier(keys: [scheme.source])
        let parts = Forge.parts(try scheme.signer().sign(Self.claims))
        let signature = Forge.bytes(base64: parts[2])
        func code(_ bytes: [UInt8]) -> TokenError.Code? {
            rejection(of: "\(parts[0]).\(parts[1]).\(Forge.base64(bytes))", by: verifier)?.code
        }
        #expect(code(signature) == nil)
        for count in 0..<signature.count {
            #expect(code(Array(signature.prefix(count))) == .wrongSignature)
        }
        #expect(code(Array(signature.dropFirst())) == .wrongSignature)
        #expect(code(signature + [0]) == .wrongSignature)
        #expect(code([0] + signature) == .wrongSignature)
        #expect(code(signature + signature) == .wrongSignature)
        #expect(code(signature.map { _ in 0 }) == .wrongSignature)
        #expect(code(signature.map { _ in 0xFF }) == .wrongSignature)
        #expect(code(signature.reversed()) == .wrongSignature)
    }

    @Test("ECDSA signatures at the limits of their range and in DER format are rejected")
    func limitsOfECDSA() throws {
        let verifier = try TokenVerifier(keys: [Scheme.es256.source])
        let parts = Forge.parts(try Scheme.es256.signer().sign(Self.claims))
        let signature = Forge.bytes(base64: parts[2])
        let order = Forge.bytes(base64: "_____wAAAAD__________7zm-q2nF56E87nKwvxjJVE")
        let zero = [UInt8](repeating: 0, count: 32)
        let one = zero.dropLast() + [1]
        let r = Array(signature.prefix(32))
        let s = Array(signature.suffix(32))
        #expect(order.count == 32)
        let halves: [([UInt8], [UInt8])] = [
            (zero, zero), (r, zero), (zero, s), (order, order), (r, order), (order, s),
            (Array(one), Array(one)), (s, r),
        ]
        for (r, s) in halves {
            let token = "\(parts[0]).\(parts[1]).\(Forge.base64(r + s))"
            #expect(rejection(of: token, by: verifier)?.code == .wrongSignature)
        }
        func integer(_ bytes: [UInt8]) -> [UInt8] {
            let digits = bytes[0] >= 0x80 ? [0] + bytes : bytes
            return [2, UInt8(digits.count)] + digits
        }
        let body = integer(r) + integer(s)
        let der = [0x30, UInt8(body.count)] + body
        let token = "\(parts[0]).\(parts[1]).\(Forge.base64(der))"
        #expect(rejection(of: token, by: verifier)?.code == .wrongSignature)
    }

    /// About every 128th half begins with a zero byte, which DER omits.
    @Test("ECDSA signatures always have 64 bytes and are verified")
    func shortHalvesOfECDSA() throws {
        let verifier = try TokenVerifier(keys: [Scheme.es256.source])
        let signer = try Scheme.es256.signer()
        for number in 0..<600 {
            let token = try signer.sign(TokenClaims(subject: "\(number)"))
            #expect(Forge.bytes(base64: Forge.parts(token)[2]).count == 64)
            #expect(try verifier.verify(token, now: .noon).subject == "\(number)")
        }
    }

    /// A public key is public: used as an HMAC secret it would let any attacker sign.
    @Test(
        "A token signed with a public key as the HMAC secret is rejected",
        arguments: [
            TestKeys.rsaPublic, TestKeys.ecPublic, TestKeys.rsaCertificate, TestKeys.ecCertificate,
        ]
    )
    func publicKeyAsSecret(pem: String) throws {
        let lines = pem.split(separator: "\n").dropFirst().dropLast().joined()
        let secrets =
            [
                pem, pem + "\n", pem.replacing("\n", with: "\r\n"), lines,
            ].map { Array($0.utf8) } + [Forge.bytes(base64: lines)]
        let alone = try TokenVerifier(keys: [.pem(pem)])
        let together = try TokenVerifier(keys: [.pem(pem), Scheme.hs256.source])
        for secret in secrets {
            let token = Forge.token(secret: secret)
            #expect(rejection(of: token, by: alone)?.code == .algorithmNotAllowed)
            #expect(rejection(of: token, by: together)?.code == .wrongSignature)
            for algorithm in ["RS256", "ES256"] {
                let header = #"{"alg":"\#(algorithm)"}"#
                let token = Forge.token(header: header, secret: secret)
                #expect(rejection(of: token, by: together) != nil)
            }
        }
    }

    @Test(
        "A token with the header or signature of another algorithm is rejected",
        arguments: Scheme.allCases,
        Scheme.allCases
    )
    func headerOfAnotherAlgorithm(scheme: Scheme, other: Scheme) throws {
        guard scheme != other else { return }
        let verifier = try TokenVerifier(keys: Scheme.allCases.map(\.source))
        let mine = Forge.parts(try scheme.signer().sign(Self.claims))
        let its = Forge.parts(try other.signer().sign(Self.claims))
        let moved = [
            "\(its[0]).\(mine[1]).\(mine[2])", "\(mine[0]).\(mine[1]).\(its[2])",
        ]
        for token in moved {
            #expect(rejection(of: token, by: verifier)?.code == .wrongSignature)
        }
    }

    @Test("A token with a changed payload is rejected", arguments: Scheme.allCases)
    func changedPayload(scheme: Scheme) throws {
        let verifier = try TokenVerifier(keys: [scheme.source])
        let parts = Forge.parts(try scheme.signer().sign(Self.claims))
        let payload = Forge.base64(#"{"sub":"berta","iss":"joe","aud":"todo"}"#.utf8)
        let token = "\(parts[0]).\(payload).\(parts[2])"
        #expect(rejection(of: token, by: verifier)?.code == .wrongSignature)
    }

    @Test("A key in the header of a token is not trusted") func keysInTheHeader() throws {
        let verifier = try TokenVerifier(keys: [Scheme.hs256.source])
        let secret = Array("a secret that only the forger knows".utf8)
        let header = """
            {"alg":"HS256","jwk":{"kty":"oct","k":"\(Forge.base64(secret))"},\
            "jku":"http://127.0.0.1:1/","x5u":"http://127.0.0.1:1/","x5c":["AA=="]}
            """
        let token = Forge.token(header: header, secret: secret)
        #expect(rejection(of: token, by: verifier)?.code == .wrongSignature)
    }
}
