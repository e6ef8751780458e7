// RejectedKeys: valid keys of types that are not accepted, as OpenSSL writes them.

enum RejectedKeys {
    /// RSA, 1024 bits.
    static let rsa1024 = """
        -----BEGIN PUBLIC KEY-----
        MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDa3+7SGKFwVa4fN0ffP4VYTvUT
        ysLW6qe+LO+aKD8NEKElHCQKT5jBJrkDBqsZ+vIEqARKn1Iz/w/0SoYJhWmyJzuI
        Bvklv5WztrySdQmD6w4kq7LMnIGSyC/l6NPa8BHSaDZi8R7V5Gi7SD8uKcmL8jGj
        8wDYPtFZLXF2ioQY4wIDAQAB
        -----END PUBLIC KEY-----
        """

    /// RSA, restricted to RSASSA-PSS signatures.
    static let rsaPSS = """
        -----BEGIN PUBLIC KEY-----
        MIIBIDALBgkqhkiG9w0BAQoDggEPADCCAQoCggEBAMsxntUzonmN7ey4j13ur705
        XoYuPVATmrEoY6PhcBBgDSEkoR6PdzKWBlkC7OZFIi23olaWQTaRMx3uuNXrxEeL
        Tzh+kqrASPFyzn2IYgCEN14u8X3lSLtB2oSkY+qkDZsjMou9IAGTox9tzywHFcOm
        4qZzdbUyTllDBzv1CdbpRue4y4pjm7Rr1zJxSNPi68f39Mzl5m+OliVKeYw1RYtK
        m041n2N3+WvzxU8Y6VU6gOOMjTKeOK8lB0iRcHDQgAXxkV2fmnfRliUGH3EWg/gl
        +IfKbbIYZTXOx6G7fzkUwPBmdYFw775jXqrKvAHgDOguwY1la9Lp+Jtp/KxxWM0C
        AwEAAQ==
        -----END PUBLIC KEY-----
        """

    /// On the curve P-384.
    static let p384 = """
        -----BEGIN PUBLIC KEY-----
        MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAE698ETzcFLgiHqasc6k8AjcXfKnUoZpKo
        jp6NiWzqlY5zXXE2sjbRRYsczOsYBtof2iMQ0W1bKoCywODB1QBDze/G1k424Hif
        +7zMszhf324qqTiz3wcdSWWVJf/KU0Nv
        -----END PUBLIC KEY-----
        """

    /// On the curve Ed25519.
    static let ed25519 = """
        -----BEGIN PUBLIC KEY-----
        MCowBQYDK2VwAyEAY9rl7aME9amv3f1pARdU92IttF0Rgq4ah8ty9F6qfdI=
        -----END PUBLIC KEY-----
        """

    /// On the curve P-256, with twice its generator: any attacker could have created it (CVE-2020-0601).
    static let otherGenerator = """
        -----BEGIN PUBLIC KEY-----
        MIIBSzCCAQMGByqGSM49AgEwgfcCAQEwLAYHKoZIzj0BAQIhAP////8AAAABAAAA
        AAAAAAAAAAAA////////////////MFsEIP////8AAAABAAAAAAAAAAAAAAAA////
        ///////////8BCBaxjXYqjqT57PrvVV2mIa8ZR0GsMxTsPY7zjw+J9JgSwMVAMSd
        NgiG5wSTamZ44ROdJreBn36QBEEEfPJ7GI0DT36KUjgDBLUaw8CJaeJ38hs1pgtI
        /EdmmXgHd1UQ247QQCk9msafdDDbun2t5jzpgimeBLedInhz0QIhAP////8AAAAA
        //////////+85vqtpxeehPO5ysL8YyVRAgEBA0IABHCM4zqvuNljoYN/qdHkKlAz
        WFPqsk6QTKiZJKfUGMcZRyeBAe9fbBMFlPy6qPk0F2uGvHv7laVCBrZOqhWmtVE=
        -----END PUBLIC KEY-----
        """
}
