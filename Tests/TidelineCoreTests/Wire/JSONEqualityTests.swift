// JSONEqualityTests: JSON.isSame compares documents exactly by value.

import Testing
import TidelineCore

@Suite struct JSONEqualityTests {
    @Test(
        "JSON texts with the same value are equal",
        arguments: [
            ("{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}"), ("[1]", "[1.0]"), ("100", "1e2"),
            ("1E+2", "100.0"), ("0", "-0.0"), ("0e5", "0"), ("0.00120", "12e-4"),
            ("-1.50", "-15e-1"), ("1e400", "10e399"), (#""\u0061""#, #""a""#), ("[]", "[]"),
            (#"{"\u0061":[{}]}"#, #"{"a":[{}]}"#),
            ("9007199254740993", "9007199254740993.0"),
            ("1e99999999999999999999", "1e99999999999999999999"),
        ]
    )
    func same(_ one: String, _ two: String) {
        #expect(JSON.isSame(one, two))
        #expect(JSON.isSame(two, one))
    }

    @Test(
        "JSON texts with different values are not equal",
        arguments: [
            ("1", "true"), ("0", "false"), ("null", "0"), ("\"1\"", "1"), ("[1,2]", "[2,1]"),
            ("{}", "[]"), ("{\"a\":null}", "{}"), ("9007199254740993", "9007199254740992"),
            ("0.1", "0.10000000000000001"), ("1", "-1"), ("1e400", "1e401"), ("\"a\"", "\"A\""),
            (#""\u00e9""#, #""e\u0301""#), (#"{"\u00e9":1}"#, #"{"e\u0301":1}"#),
            ("1e99999999999999999999", "1e99999999999999999998"), ("x", "y"),
        ]
    )
    func different(_ one: String, _ two: String) {
        #expect(!JSON.isSame(one, two))
        #expect(!JSON.isSame(two, one))
    }
}
