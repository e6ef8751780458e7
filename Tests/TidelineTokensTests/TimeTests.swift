// TimeTests: exp, nbf and iat at the limits of the leeway, to the microsecond.

import Testing
import TidelineCore
import TidelineTokens

struct TimeTests {
    /// Claim, its value, leeway in seconds, `now` in microseconds, and the result.
    static let cases: [(String, String, Int64, Int64, TokenError.Code?)] = [
        ("exp", "1000", 60, 0, nil),
        ("exp", "1000", 60, 1_000_000_000, nil),
        ("exp", "1000", 60, 1_059_999_999, nil),
        ("exp", "1000", 60, 1_060_000_000, .expired),
        ("exp", "1000", 0, 999_999_999, nil),
        ("exp", "1000", 0, 1_000_000_000, .expired),
        ("exp", "1000.5", 0, 1_000_499_999, nil),
        ("exp", "1000.5", 0, 1_000_500_000, .expired),
        ("exp", "1e3", 0, 999_999_999, nil),
        ("exp", "1E+3", 0, 1_000_000_000, .expired),
        ("exp", "1000.0000001", 0, 1_000_000_000, .expired),
        ("exp", "253402300799", 60, 1_000_000_000, nil),
        ("nbf", "1000", 60, 939_999_999, .notYetValid),
        ("nbf", "1000", 60, 940_000_000, nil),
        ("nbf", "1000", 0, 999_999_999, .notYetValid),
        ("nbf", "1000", 0, 1_000_000_000, nil),
        ("nbf", "0", 0, 1_000_000_000, nil),
        ("nbf", "-5", 0, 1_000_000_000, nil),
        ("iat", "1000", 60, 939_999_999, .issuedInTheFuture),
        ("iat", "1000", 60, 940_000_000, nil),
        ("iat", "1000", 0, 1_000_000_000, nil),
        ("iat", "1000", 600, 400_000_000, nil),
        ("iat", "1", 0, 9_000_000_000_000, nil),
    ]

    @Test("The time claims of a token are checked with the exact leeway", arguments: cases)
    func limitsOfTheLeeway(
        claim: String,
        value: String,
        leeway: Int64,
        now: Int64,
        code: TokenError.Code?
    ) throws {
        let verifier = try TokenVerifier(keys: [Scheme.hs256.source], leeway: .seconds(leeway))
        let token = Forge.token(payload: #"{"sub":"anna","\#(claim)":\#(value)}"#)
        #expect(rejection(of: token, by: verifier, at: Timestamp(microseconds: now))?.code == code)
    }

    @Test("The default leeway is one minute") func defaultLeewayIsAMinute() throws {
        let verifier = try TokenVerifier(keys: [Scheme.hs256.source])
        let token = Forge.token(payload: #"{"sub":"anna","exp":1000}"#)
        #expect(rejection(of: token, by: verifier, at: Timestamp(seconds: 1059)) == nil)
        #expect(rejection(of: token, by: verifier, at: Timestamp(seconds: 1060))?.code == .expired)
    }
}
