// RFCVectorTests: the examples in RFC 7515 appendix A and RFC 7517 appendix A.
//
// The tokens of RFC 7515 name no subject, so a valid signature ends in `missingSubject`.

import Testing
import TidelineCore
import TidelineTokens

struct RFCVectorTests {
    static let payload =
        "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0"
        + "cnVlfQ"

    /// RFC 7517 appendix A.3; the first key is for another algorithm.
    static let symmetricKeys = """
        {"keys": [
            {"kty": "oct", "alg": "A128KW", "k": "GawgguFyGrWKav7AX4VKUg"},
            {"kty": "oct", "k": "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0i\
        PS4hcgUuTwjAzZr1Z9CAow", "kid": "HMAC key used in JWS spec Appendix A.1 example"}
        ]}
        """

    static let rsaKeys = """
        {"keys": [{"kty": "RSA", "n": "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddx\
        HmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZ\
        o9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQ\
        Y4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDT\
        W9gb54h4FRWyuXpoQ", "e": "AQAB"}]}
        """

    static let ecKeys = """
        {"keys": [{"kty": "EC", "crv": "P-256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}
        """

    static let vectors: [(String, String, String)] = [
        (
            symmetricKeys, "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9",
            "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
        ),
        (
            rsaKeys, "eyJhbGciOiJSUzI1NiJ9",
            "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt"
                + "_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h"
                + "6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqt"
                + "FZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtV"
                + "rBp0igcN_IoypGlUPQGe77Rw"
        ),
        (
            ecKeys, "eyJhbGciOiJFUzI1NiJ9",
            "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU"
                + "1Q"
        ),
    ]

    @Test(
        "The signatures of RFC 7515 are verified, and changed ones are rejected",
        arguments: vectors
    )
    func signaturesOfRFC7515(keys: String, header: String, signature: String) throws {
        let verifier = try TokenVerifier(keys: [.jwks(keys)], issuer: "joe")
        let token = "\(header).\(Self.payload).\(signature)"
        let expiry: Int64 = 1_300_819_380
        let before = Timestamp(seconds: expiry - 1)
        #expect(rejection(of: token, by: verifier, at: before)?.code == .missingSubject)
        let after = Timestamp(seconds: expiry + 60)
        #expect(rejection(of: token, by: verifier, at: after)?.code == .expired)
        let changed = "\(header).\(Self.payload.dropLast())A.\(signature)"
        #expect(rejection(of: changed, by: verifier, at: before)?.code != .missingSubject)
        let first = signature.first == "A" ? "B" : "A"
        let wrong = "\(header).\(Self.payload).\(first)\(signature.dropFirst())"
        #expect(rejection(of: wrong, by: verifier, at: before)?.code == .wrongSignature)
    }

    /// RFC 7517 appendix A.1, with the members that A.2 adds to its RSA key in `extra`.
    static func publicKeys(extra: String = "") -> String {
        """
        {"keys": [
            {"kty": "EC", "crv": "P-256", "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
             "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM", "use": "enc", "kid": "1"},
            {"kty": "RSA", "n": "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zw\
        u1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6\
        Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD\
        08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJz\
        KnqDKgw", "e": "AQAB", \(extra)"alg": "RS256", "kid": "2011-04-29"}
        ]}
        """
    }

    /// Signed with the private key of A.2 by another implementation.
    static let signedWithA2 =
        "eyJhbGciOiJSUzI1NiIsImtpZCI6IjIwMTEtMDQtMjkifQ.eyJzdWIiOiJhbm5hIn0.tXIEL7Mf9UbVxF1vtSHa7"
        + "IfuJqjmKolQMoUQkueovxMdjo-3Nes5xmfzfSAbbfgcjTL-UTkkaBNvJgnOm5b-j-q2VPMyPOgRSnL8TXPflvOJ"
        + "D35F6QMsTOBBE9VRepBPqNfsh1xa2i71FpaFiXciJNsnYRLdZn9_g7HF8V2xAJo98mKyWWgvIwdf_iGz0SqhkKS"
        + "i6k7M3Kgkx5w84vyijS7n6KKv3eJSLS8mW_WPQCfbhsRMobzPrMMZela9FJUjy7EzmqlPaJKMSAaWsKQuHHsAZy"
        + "5FeQlynfzYJ4rxplkhLiU0FQ-kaA_U4ZbNGobqyM07Vm3wTGyKE3QlsV71sg"

    /// The same with RSASSA-PSS.
    static let signedByPSS =
        "w2QW_Mzw3jlP-93Ggt4XoGmy4kSjUyBpwIQ0K-ObsS0w3DU4ScIO22c2NeiUIR-V3ow0sChFKGDFiC9aE5c2pn3W"
        + "6_kgQauOf2KsbXgMRStNjioBv3yRBfAJbTcgOWPyOLQ_bb0TxA-QG62VJdp7OzctE8GUnSLmluBt6ffY_6nElJ"
        + "wYkiJcZoP0KvqyuW58oo52gzj_9V3zSP_ZluIfrE1AHqEOF1Ko5k7mdbzpiI_kLZmIdzs7cwo6zNoGzhAlWwt_"
        + "Q5Pj6SDHsM4F9xczywEyhEtAU1AhUDG2jd2sCJm-OQasLU4-CFYSnkxpEUMTB2ig0YbGBIKHdO2IMAvbnQ"

    @Test(
        "The signing keys of RFC 7517 are used, and the encryption key is not",
        arguments: [publicKeys(), publicKeys(extra: #""d": "X4cT", "p": "83i-", "#)]
    )
    func keysOfRFC7517(keys: String) throws {
        let verifier = try TokenVerifier(keys: [.jwks(keys)])
        #expect(verifier.algorithms == [.rs256], "the EC key is for encryption")
        #expect(try verifier.verify(Self.signedWithA2, now: .noon).subject == "anna")
        let parts = Forge.parts(Self.signedWithA2)
        let byPSS = "\(parts[0]).\(parts[1]).\(Self.signedByPSS)"
        #expect(rejection(of: byPSS, by: verifier)?.code == .wrongSignature)
    }
}
