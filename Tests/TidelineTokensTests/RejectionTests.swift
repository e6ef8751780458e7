// RejectionTests: every way in which a token can be invalid, with the reason that is reported.

import Testing
import TidelineCore
import TidelineTokens

struct RejectionTests {
    static let verifier = Result {
        try TokenVerifier(
            keys: [Scheme.hs256.source, Scheme.rs256.source, Scheme.es256.source],
            issuer: "joe",
            audience: "todo"
        )
    }

    /// Strings that are not tokens, or have a header that is not accepted.
    static let forms: [(String, TokenError.Code)] = [
        ("", .malformed),
        (".", .malformed),
        ("..", .malformed),
        ("...", .malformed),
        ("a", .malformed),
        ("e30.e30", .malformed),
        (Forge.token() + ".", .malformed),
        (Forge.token() + ".e30", .malformed),
        ("." + Forge.token(), .malformed),
        (Forge.token() + "=", .malformed),
        (Forge.token() + " ", .malformed),
        ("\u{FEFF}" + Forge.token(), .malformed),
        (Forge.token() + "\n", .malformed),
        ("Bearer " + Forge.token(), .malformed),
        (Forge.token(header: #"{"alg":"HS256"} "#).replacing("-", with: "+") + "+", .malformed),
        ("e30=.e30.e30", .malformed),
        ("e3 0.e30.e30", .malformed),
        ("e30.e31.e30", .malformed),  // bits left over
        ("\u{1D4D0}30.e30.e30", .malformed),
        (Forge.token(header: ""), .malformed),
        (Forge.token(header: "{}"), .malformed),
        (Forge.token(header: "[]"), .malformed),
        (Forge.token(header: "null"), .malformed),
        (Forge.token(header: #""HS256""#), .malformed),
        (Forge.token(header: #"{"alg":"HS256"}x"#), .malformed),
        (Forge.token(header: #"{"alg":"HS256",}"#), .malformed),
        (Forge.token(header: #"{alg:"HS256"}"#), .malformed),
        (Forge.token(header: #"{"alg":null}"#), .malformed),
        (Forge.token(header: #"{"alg":["HS256"]}"#), .malformed),
        (Forge.token(header: #"{"alg":"HS256","kid":1}"#), .malformed),
        (Forge.token(header: #"{"alg":"HS256","alg":"HS256"}"#), .malformed),
        (Forge.token(header: #"{"alg":"HS256","\u0061lg":"HS256"}"#), .malformed),
        (Forge.token(header: #"{"typ":"JWT","alg":"HS256","x":{"a":1,"a":1}}"#), .malformed),
        (Forge.token(header: "{\"alg\":\"HS256\",\"x\":\"\u{1}\"}"), .malformed),
        (Forge.token(header: #"{"alg":"HS256","x":"\ud800"}"#), .malformed),
        (Forge.token(header: #"{"alg":"HS256","x":\#(nested(64))}"#), .malformed),
        (Forge.token(header: #"{"alg":"HS256","x":\#(nested(5000))}"#), .malformed),
        (Forge.token(header: #"{"alg":"none"}"#), .unsigned),
        (Forge.token(header: #"{"alg":"None"}"#), .unsigned),
        (Forge.token(header: #"{"alg":"NONE"}"#), .unsigned),
        (Forge.token(header: #"{"alg":"nOnE"}"#), .unsigned),
        (Forge.token(header: #"{"alg":"\u006eone"}"#), .unsigned),
        (unsigned(#"{"alg":"none"}"#), .unsigned),
        (unsigned(#"{"alg":"HS256"}"#), .wrongSignature),
        (unsigned(#"{"alg":"RS256"}"#), .wrongSignature),
        (unsigned(#"{"alg":"ES256"}"#), .wrongSignature),
        (Forge.token(header: #"{"alg":""}"#), .algorithmNotAllowed),
        (Forge.token(header: #"{"alg":"hs256"}"#), .algorithmNotAllowed),
        (Forge.token(header: #"{"alg":"HS256 "}"#), .algorithmNotAllowed),
        (Forge.token(header: #"{"alg":"none "}"#), .algorithmNotAllowed),
        (Forge.token(header: #"{"alg":"HS512"}"#), .algorithmNotAllowed),
        (Forge.token(header: #"{"alg":"PS256"}"#), .algorithmNotAllowed),
        (Forge.token(header: #"{"alg":"ES256K"}"#), .algorithmNotAllowed),
        (Forge.token(header: #"{"alg":"HS256","crit":["b64"],"b64":false}"#), .unknownExtension),
        (Forge.token(header: #"{"alg":"HS256","crit":[]}"#), .unknownExtension),
        (Forge.token(header: #"{"alg":"HS256","crit":null}"#), .unknownExtension),
        (Forge.token(payload: String(repeating: " ", count: 13000)), .tooLarge),
    ]

    /// Payloads that are invalid even with a valid signature.
    static let payloads: [(String, TokenError.Code)] = [
        ("", .malformed),
        ("null", .malformed),
        (#"["sub","anna"]"#, .malformed),
        (#"{"sub":"anna"}}"#, .malformed),
        (#"{"sub":"anna","sub":"anna"}"#, .malformed),
        (#"{"sub":"anna","s\u0075b":"berta"}"#, .malformed),
        (#"{"sub":"anna","x":{"y":1,"y":2}}"#, .malformed),
        (#"{"sub":"anna","x":\#(nested(64))}"#, .malformed),
        (#"{"sub":"anna","x":\#(nested(5000))}"#, .malformed),
        (#"{"sub":"anna","x":1e999}"#, .malformed),
        (#"{"sub":"anna","x":01}"#, .malformed),
        (#"{"sub":1,"iss":"joe","aud":"todo"}"#, .wrongClaim),
        (#"{"sub":null,"iss":"joe","aud":"todo"}"#, .wrongClaim),
        (#"{"sub":["anna"],"iss":"joe","aud":"todo"}"#, .wrongClaim),
        (#"{"iss":"joe","aud":"todo"}"#, .missingSubject),
        (#"{"sub":"","iss":"joe","aud":"todo"}"#, .missingSubject),
        (#"{"sub":"anna","aud":"todo"}"#, .wrongIssuer),
        (#"{"sub":"anna","iss":"","aud":"todo"}"#, .wrongIssuer),
        (#"{"sub":"anna","iss":"joe ","aud":"todo"}"#, .wrongIssuer),
        (#"{"sub":"anna","iss":"Joe","aud":"todo"}"#, .wrongIssuer),
        (#"{"sub":"anna","iss":["joe"],"aud":"todo"}"#, .wrongClaim),
        (#"{"sub":"anna","iss":"joe"}"#, .wrongAudience),
        (#"{"sub":"anna","iss":"joe","aud":"todos"}"#, .wrongAudience),
        (#"{"sub":"anna","iss":"joe","aud":[]}"#, .wrongAudience),
        (#"{"sub":"anna","iss":"joe","aud":["a","b"]}"#, .wrongAudience),
        (#"{"sub":"anna","iss":"joe","aud":["todo",1]}"#, .wrongClaim),
        (#"{"sub":"anna","iss":"joe","aud":{"todo":true}}"#, .wrongClaim),
        (#"{"sub":"anna","iss":"joe","aud":null}"#, .wrongClaim),
        (#"{"sub":"anna","iss":"joe","aud":"todo","exp":"1795206800"}"#, .wrongClaim),
        (#"{"sub":"anna","iss":"joe","aud":"todo","exp":null}"#, .wrongClaim),
        (#"{"sub":"anna","iss":"joe","aud":"todo","exp":true}"#, .wrongClaim),
        (#"{"sub":"anna","iss":"joe","aud":"todo","exp":1e300}"#, .wrongClaim),
        (#"{"sub":"anna","iss":"joe","aud":"todo","exp":1795206800000}"#, .wrongClaim),
        (#"{"sub":"anna","iss":"joe","aud":"todo","exp":9223372036854775807}"#, .wrongClaim),
        (#"{"sub":"anna","iss":"joe","aud":"todo","exp":-9223372036854775808}"#, .wrongClaim),
        (#"{"sub":"anna","iss":"joe","aud":"todo","nbf":"soon"}"#, .wrongClaim),
        (#"{"sub":"anna","iss":"joe","aud":"todo","iat":[]}"#, .wrongClaim),
        (#"{"sub":"anna","iss":"joe","aud":"todo","exp":0}"#, .expired),
        (#"{"sub":"anna","iss":"joe","aud":"todo","exp":-1}"#, .expired),
    ]

    @Test("A malformed token is rejected with the code for its error", arguments: forms)
    func malformedToken(token: String, code: TokenError.Code) throws {
        #expect(rejection(of: token, by: try Self.verifier.get())?.code == code)
    }

    @Test(
        "A token with an invalid payload is rejected with the code for its error",
        arguments: payloads
    )
    func invalidPayload(text: String, code: TokenError.Code) throws {
        let token = Forge.token(payload: text)
        #expect(rejection(of: token, by: try Self.verifier.get())?.code == code)
    }

    @Test("A token whose header or payload is not UTF-8 is rejected as malformed")
    func payloadsThatAreNotUTF8() throws {
        let verifier = try Self.verifier.get()
        let bytes = Array(#"{"sub":""#.utf8) + [0xC3, 0x28] + Array(#""}"#.utf8)
        let header = Array(Forge.header.utf8)
        let token = Forge.token(header: header, payload: bytes, secret: TestKeys.secret)
        #expect(rejection(of: token, by: verifier)?.code == .malformed)
        let inHeader = Forge.token(header: bytes, payload: bytes, secret: TestKeys.secret)
        #expect(rejection(of: inHeader, by: verifier)?.code == .malformed)
    }

    @Test(
        "Unusual but valid payloads are accepted",
        arguments: [
            #"{"sub":"anna","iss":"joe","aud":"todo"}"#,
            " {\r\n\"aud\" : [\"x\",\"todo\"] , \"iss\":\"joe\",\"sub\":\"anna\"}\n",
            #"{"sub":"anna","iss":"\u006aoe","aud":["todo"],"exp":9999999999}"#,
            #"{"sub":"anna","iss":"joe","aud":"todo","x":\#(nested(63)),"y":"\ud83c\udf3f"}"#,
        ]
    )
    func similarValidPayloadsAreAccepted(payload: String) throws {
        let claims = try Self.verifier.get().verify(Forge.token(payload: payload), now: .noon)
        #expect(claims.subject == "anna")
    }

    @Test("A token that exceeds the maximum length is rejected as too large")
    func lengthIsLimited() throws {
        let verifier = try TokenVerifier(keys: [Scheme.hs256.source])
        func token(_ padding: Int) -> String {
            Forge.token(payload: Forge.payload + String(repeating: " ", count: padding))
        }
        #expect(token(12213).utf8.count == 16384)
        #expect(rejection(of: token(12213), by: verifier) == nil)
        #expect(rejection(of: token(12214), by: verifier)?.code == .tooLarge)
        let dots = String(repeating: ".", count: 16384)
        #expect(rejection(of: dots, by: verifier)?.code == .malformed)
        #expect(rejection(of: dots + ".", by: verifier)?.code == .tooLarge)
    }

    /// Valid in WWW-Authenticate (RFC 6750 section 3), and without details of the token and the key.
    @Test("Error messages disclose nothing about the token")
    func messagesDiscloseNothingAboutTheToken() throws {
        let verifier = try Self.verifier.get()
        let all = Self.forms.map(\.0) + Self.payloads.map { Forge.token(payload: $0.0) }
        var codes: Set<TokenError.Code> = []
        for token in all {
            let error = try #require(rejection(of: token, by: verifier))
            codes.insert(error.code)
            let isPlain = error.message.utf8.allSatisfy {
                $0 >= 0x20 && $0 < 0x7F && $0 != 0x22 && $0 != 0x5C
            }
            #expect(isPlain && error.message.hasSuffix("."), "\(error.message)")
            for secret in ["anna", "berta", "joe", "0123456789abcdef", "eyJ"] {
                #expect(!error.message.contains(secret))
            }
        }
        #expect(codes.count == 11)
    }
}

/// Nested arrays of this depth.
private func nested(_ depth: Int) -> String {
    String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
}

private func unsigned(_ header: String) -> String {
    Forge.base64(header.utf8) + "." + Forge.base64(Forge.payload.utf8) + "."
}
