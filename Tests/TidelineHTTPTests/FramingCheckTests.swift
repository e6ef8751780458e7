// FramingCheckTests: the check of request heads and the split of targets, without a socket.

import Testing
import TidelineCore
import TidelineHTTP

struct FramingCheckTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var fields: [(String, String)]
        var isAccepted: Bool
        var isVersion11 = true
        var testDescription: String { "\(fields)" }
    }

    static let cases: [Case] = [
        Case(fields: [("Host", "a")], isAccepted: true),
        Case(fields: [("hOST", "")], isAccepted: true),
        Case(fields: [], isAccepted: false),
        Case(fields: [], isAccepted: true, isVersion11: false),
        Case(fields: [("Host", "a"), ("host", "a")], isAccepted: false),
        Case(fields: [("Host", "127.0.0.1:8080")], isAccepted: true),
        Case(fields: [("Host", "xn--e1afmkfd.example:65535")], isAccepted: true),
        Case(fields: [("Host", "[::1]:80")], isAccepted: true),
        Case(fields: [("Host", "[::1]")], isAccepted: true),
        Case(fields: [("Host", "a:")], isAccepted: true),
        Case(fields: [("Host", "a b")], isAccepted: false),
        Case(fields: [("Host", "a/b")], isAccepted: false),
        Case(fields: [("Host", "a@b")], isAccepted: false),
        Case(fields: [("Host", "a;b")], isAccepted: false),
        Case(fields: [("Host", "a<b")], isAccepted: false),
        Case(fields: [("Host", "a:x")], isAccepted: false),
        Case(fields: [("Host", "a:99999")], isAccepted: false),
        Case(fields: [("Host", "a:99999999999999999999999")], isAccepted: false),
        Case(fields: [("Host", "[::1")], isAccepted: false),
        Case(fields: [("Host", "[]")], isAccepted: false),
        Case(fields: [("Host", "[::1]x")], isAccepted: false),
        Case(fields: [("Host", "a, b")], isAccepted: false),
        Case(fields: [("Host", "a"), ("Content-Length", "0")], isAccepted: true),
        Case(fields: [("Host", "a"), ("Content-Length", "")], isAccepted: false),
        Case(fields: [("Host", "a"), ("Content-Length", "+4")], isAccepted: false),
        Case(fields: [("Host", "a"), ("Content-Length", "-4")], isAccepted: false),
        Case(fields: [("Host", "a"), ("Content-Length", "4, 4")], isAccepted: false),
        Case(fields: [("Host", "a"), ("Content-Length", "0x4")], isAccepted: false),
        Case(
            fields: [("Host", "a"), ("Content-Length", "99999999999999999999")],
            isAccepted: true
        ),
        Case(
            fields: [("Host", "a"), ("Content-Length", "4"), ("content-length", "4")],
            isAccepted: false
        ),
        Case(fields: [("Host", "a"), ("Transfer-Encoding", "Chunked")], isAccepted: true),
        Case(fields: [("Host", "a"), ("Transfer-Encoding", "chunked ")], isAccepted: false),
        Case(fields: [("Host", "a"), ("Transfer-Encoding", "identity")], isAccepted: false),
        Case(fields: [("Host", "a"), ("Transfer-Encoding", "gzip, chunked")], isAccepted: false),
        Case(
            fields: [("Host", "a"), ("Transfer-Encoding", "chunked")],
            isAccepted: false,
            isVersion11: false
        ),
        Case(
            fields: [("Host", "a"), ("Transfer-Encoding", "chunked"), ("Content-Length", "4")],
            isAccepted: false
        ),
        Case(
            fields: [("Host", "a"), ("Content-Length", "4"), ("Transfer-Encoding", "chunked")],
            isAccepted: false
        ),
        Case(fields: [("Host", "a"), ("X Y", "1")], isAccepted: false),
        Case(fields: [("Host", "a"), ("X-Y ", "1")], isAccepted: false),
        Case(fields: [("Host", "a"), ("", "1")], isAccepted: false),
        Case(fields: [("Host", "a"), ("X\u{E9}", "1")], isAccepted: false),
        Case(fields: [("Host", "a"), ("X", "a\tb \u{E9}")], isAccepted: true),
        Case(fields: [("Host", "a"), ("X", "a\u{1}b")], isAccepted: false),
        Case(fields: [("Host", "a"), ("X", "a\u{7F}")], isAccepted: false),
        Case(fields: [("Host", "a"), ("X", "a\nb")], isAccepted: false),
    ]

    @Test("The framing check accepts or rejects a set of header fields", arguments: cases)
    func accepts(_ example: Case) {
        var check = FramingCheck()
        for (name, value) in example.fields {
            Array(name.utf8).withUnsafeBytes { name in
                Array(value.utf8).withUnsafeBytes { check.field(name: name, value: $0) }
            }
        }
        check.finish(isVersion11: example.isVersion11)
        #expect((check.problem == nil) == example.isAccepted)
    }

    @Test(
        "A request target is split into path and query or rejected",
        arguments: [
            ("/", "/", ""),
            ("/a%2Fb/%c3%A9", "/a%2Fb/%c3%A9", ""),
            ("/a?", "/a", ""),
            ("/a?b=1&c&d=+%20?e", "/a", "b=1&c&d=+%20?e"),
            ("*", "*", ""),
            ("http://host/a?b", "/a", "b"),
            ("HTTPS://host:80", "/", ""),
            ("http://host?b", "/", "b"),
            ("/http://host/a", "/http://host/a", ""),
            ("a", nil, ""),
            ("", nil, ""),
            ("?a", nil, ""),
            ("ftp://host/a", nil, ""),
            ("/a b", nil, ""),
            ("/a\u{1}", nil, ""),
        ]
    )
    func splitsTarget(_ target: String, _ path: String?, _ query: String) {
        let split = Array(target.utf8).withUnsafeBytes { RequestTarget($0) }
        #expect(split?.path == path)
        #expect((split?.query ?? "") == query)
    }
}
