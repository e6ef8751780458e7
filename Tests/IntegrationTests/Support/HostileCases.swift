// HostileCases: malicious requests, and the statuses of the responses.

import Foundation

struct HostileCase: Sendable {
    var name: String
    var raw: [UInt8]
    /// The statuses of all responses on the connection, in order; one of these lists.
    var statuses: [[Int]]

    init(_ name: String, _ raw: [UInt8], _ statuses: [[Int]]) {
        self.name = name
        self.raw = raw
        self.statuses = statuses
    }

    /// A GET of a target, sent unchanged.
    static func get(_ name: String, _ target: String, _ statuses: Int...) -> HostileCase {
        let raw = "GET \(target) HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        return HostileCase(name, Array(raw.utf8), statuses.map { [$0] })
    }

    /// A list of notes with one option.
    static func option(_ name: String, _ value: String, _ statuses: Int...) -> HostileCase {
        var example = get("\(name)=\(value.prefix(40))", "/tables/Note?\(name)=\(value)")
        example.statuses = statuses.map { [$0] }
        return example
    }

    /// A GET with further header lines.
    static func fields(_ name: String, _ lines: String, _ statuses: Int...) -> HostileCase {
        let raw = "GET /tables/Note HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\(lines)\r\n\r\n"
        return HostileCase(name, Array(raw.utf8), statuses.map { [$0] })
    }

    /// An insert of a note.
    static func insert(_ name: String, _ body: String, _ statuses: Int...) -> HostileCase {
        insert(name, Array(body.utf8), statuses)
    }

    static func insert(
        _ name: String,
        _ body: [UInt8],
        _ statuses: [Int],
        method: String = "POST",
        target: String = "/tables/Note",
        type: String = "application/json"
    ) -> HostileCase {
        let head = """
            \(method) \(target) HTTP/1.1\r
            Host: a\r
            Connection: close\r
            Content-Type: \(type)\r
            Content-Length: \(body.count)\r
            \r

            """
        return HostileCase(name, Array(head.utf8) + body, statuses.map { [$0] })
    }

    /// An insert of a note in chunks.
    static func chunks(_ name: String, _ body: String, _ statuses: [Int]...) -> HostileCase {
        let head = """
            POST /tables/Note HTTP/1.1\r
            Host: a\r
            Content-Type: application/json\r
            Transfer-Encoding: chunked\r
            \r

            """
        return HostileCase(name, Array((head + body).utf8), statuses)
    }
}

private func many(_ text: String, _ count: Int) -> String { String(repeating: text, count: count) }

extension HostileCase {
    static let all = connections + heads + targets + options + bodies + chunked

    static let connections: [HostileCase] = [
        HostileCase("nothing at all", [], [[]]),
        HostileCase("a part of a request line", Array("GET /tab".utf8), [[]]),
        HostileCase("a part of a head", Array("GET / HTTP/1.1\r\nHost: a\r\n".utf8), [[]]),
        HostileCase(
            "a part of a body",
            Array("POST /tables/Note HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{".utf8),
            [[]]
        ),
        HostileCase(
            "many requests at once",
            Array(many("GET /tables/Note?$top=1 HTTP/1.1\r\nHost: a\r\n\r\n", 200).utf8),
            [Array(repeating: 200, count: 200)]
        ),
        HostileCase("line breaks only", Array(many("\r\n", 50_000).utf8), [[400]]),
        HostileCase("zeros", Array(repeating: 0, count: 100_000), [[400]]),
        HostileCase(
            "bytes of no meaning",
            (0..<20_000).map { UInt8($0 % 251) },
            [[400]]
        ),
        HostileCase(
            "a TLS hello",
            [0x16, 3, 1, 2, 0, 1, 0, 1, 0xFC, 3, 3] + Array(repeating: 0x5A, count: 500),
            [[400]]
        ),
        HostileCase(
            "an HTTP/2 preface",
            Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + [0, 0, 0, 4, 0, 0, 0, 0, 0],
            [[400]]
        ),
    ]

    static let heads: [HostileCase] = [
        fields("100,000 headers", many("X: y\r\n", 100_000) + "X: y", 431),
        fields("2,000 short headers", many("a:b\r\n", 2000) + "a:b", 431),
        fields("a header of 100 KB", "X: " + many("x", 100_000), 431),
        fields("a name of 100 KB", many("x", 100_000) + ": x", 431),
        fields("bytes that are no UTF-8", "If-Match: \u{80}\u{FF}", 200),
        fields("a thousand tags", "If-None-Match: " + many("\"x\",", 1000) + "W/\"y\"", 200),
        fields("half a tag", "If-Match: \"x", 200, 400),
        fields("a page of no rows", "Prefer: maxpagesize=0", 200, 400),
        fields("a page of many rows", "Prefer: maxpagesize=99999999999999999999", 200, 400),
        fields("codings", "Accept-Encoding: " + many("gzip;q=0.0001,", 900) + "*;q=x", 200),
        fields("a version of many digits", "ZUMO-API-VERSION: 2." + many("9", 9000), 200, 400),
        fields("an upgrade", "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__", 200),
        fields("an expectation", "Expect: miracles", 200, 417),
        fields("a request id of many bytes", "X-Request-ID: " + many("i", 9000), 200),
        fields("a date far away", "If-Modified-Since: Sun, 06 Nov 9999999999 08:49:37 GMT", 200),
        HostileCase(
            "a method of 10 KB",
            Array("\(many("M", 10_000)) / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".utf8),
            [[404], [405], [400], [414]]
        ),
        HostileCase(
            "bytes over 127 in a value",
            Array("GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Request-ID: ".utf8)
                + [0xFF, 0xFE, 0xC0, 0x80] + Array("\r\n\r\n".utf8),
            [[200]]
        ),
    ]

    static let targets: [HostileCase] = [
        get("an encoded NUL as id", "/tables/Note/%00", 400, 404),
        get("an encoded NUL as table", "/tables/%00", 404, 400),
        get("half an encoding", "/tables/Note/%4", 400),
        get("not UTF-8 after decoding", "/tables/Note/%FF", 400),
        get("an overlong encoding", "/tables/Note/%C0%AF", 400),
        get("a surrogate", "/tables/Note/%ED%A0%80", 400),
        get("a thousand slashes", "/" + many("/", 1000), 404),
        get("dots", "/tables/../../etc/passwd", 404),
        get("an id of 10 KB", "/tables/Note/" + many("x", 10_000), 404, 400),
        get("SQL as table", "/tables/Note;DROP%20TABLE%20Note", 404),
        get("the server's own table", "/tables/sqlite_master", 404),
        get("an encoded slash", "/tables/Note%2F1", 404),
        HostileCase(
            "a NUL in the target",
            Array("GET /tables/No\0te HTTP/1.1\r\nHost: a\r\n\r\n".utf8),
            [[400]]
        ),
        HostileCase(
            "bytes over 127 in the target",
            Array("GET /tables/".utf8) + [0xFF, 0xC3] + Array(" HTTP/1.1\r\nHost: a\r\n\r\n".utf8),
            [[400]]
        ),
        HostileCase(
            "CONNECT",
            Array("CONNECT a:443 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".utf8),
            [[400]]
        ),
    ]

    static let options: [HostileCase] = [
        option("$top", "-1", 400), option("$skip", "-1", 400), option("$top", "1e3", 400),
        option("$top", "99999999999999999999", 400), option("$skip", "99999999999999999999", 400),
        option("$top", "9223372036854775807", 400), option("$skip", "999999999999", 200),
        option("$skip", "9223372036854775807&$orderby=tolower(text)", 200),
        option("$skip", "9223372036854775807&$orderby=due,createdAt", 200),
        option("$top", "+1", 400), option("$top", "%D9%A1", 400), option("$skip", "0x1", 400),
        option("$filter", many("(", 8000), 400),
        option("$filter", many("not%20", 2500) + "done", 400),
        option("$filter", many("(", 90) + "done" + many(")", 90), 400),
        option("$filter", many("done%20or%20", 1200) + "done", 200),
        option("$filter", "rank%20in%20(" + many("1,", 15000) + "1)", 400),
        option("$filter", "text%20eq%20'%00'", 200, 400),
        option("$filter", "text%20eq%20'%FF'", 400),
        option("$filter", "rank%20eq%20" + many("9", 10_000), 400),
        option("$filter", "weight%20eq%201e999999999", 400),
        option("$filter", "due%20gt%20datetime'99999999-99-99'", 400),
        option(
            "$filter",
            "substring(text,-9223372036854775808,9223372036854775807)%20eq%20''",
            200
        ),
        option("$filter", "rank%20div%200%20eq%20null", 200),
        option("$filter", "rank%20mod%20-1%20eq%200", 200),
        option("$filter", "round(weight)%20eq%20-9223372036854775808", 200),
        option("$filter", "1e-128M%20mul%201e-128M%20eq%200", 200),
        option("$filter", "cast(weight,Edm.Decimal)%20mul%201e-128M%20lt%201", 200),
        option("$orderby", "cast(rank,Edm.Decimal)%20mul%201e-128M", 200),
        option("$orderby", many("rank,", 3000) + "rank", 400),
        option("$orderby", many("tolower(", 79) + "text" + many(")", 79), 200, 400),
        option("$orderby", "rank%20in%20()", 200),
        option("$orderby", "1%20eq%201,rank%20in%20()", 200),
        option("$select", many("text,", 3000) + "text", 400, 200),
        option("$skiptoken", many("A", 10_000), 400),
        option("$skiptoken", "W1tbW1tbW1tbW1tbXV1dXV1dXV1dXV1d", 400),
        option("$skiptoken", "W251bGwsbnVsbF0", 400), option("$skiptoken", "WzEuNSwxZTk5OV0", 400),
        option("$skiptoken", "WzFd", 200, 400),
        get(
            "a token of the least instant",
            "/tables/Note?$orderby=updatedAt&$skiptoken=Wy05MjIzMzcyMDM2ODU0Nzc1ODA4LCJhIl0",
            400
        ),
        option("$deltatoken", many("A", 10_000), 400), option("$deltatoken", "AQ", 400),
        option("$deltatoken", "AQIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB__________w", 410),
        option("$inlinecount", many("allpages", 1000), 400),
        get("an option of 9 KB", "/tables/Note?" + many("$", 9000) + "=1", 400),
        option("$count", "%00", 200),
        get("three thousand parameters", "/tables/Note?" + many("a=b&", 3000), 200),
        option(
            "$filter",
            many("(rank%20eq%201%20or%20", 75) + "rank%20eq%202" + many(")", 75),
            200
        ),
        option("$filter", many("tolower(", 70) + "text" + many(")", 70) + "%20eq%20'a'", 200),
        option("$filter", many("rank%20add%20", 70) + "1%20eq%201", 200, 400),
    ]

    static let bodies: [HostileCase] = [
        insert("deep arrays", #"{"text":"# + many("[", 200_000) + "}", 400),
        insert("deep objects", many(#"{"text":"#, 50_000), 400),
        insert("a lone surrogate", #"{"text":"\ud800"}"#, 400),
        insert("an encoded NUL", #"{"text":"\u0000"}"#, 400),
        insert("a NUL", "{\"text\":\"\0\"}", 400),
        insert("a byte order mark", "\u{FEFF}{}", 400),
        insert("no UTF-8", Array(#"{"text":""#.utf8) + [0xFF, 0xC0] + Array("\"}".utf8), [400]),
        insert("UTF-16", [0xFE, 0xFF, 0, 0x7B, 0, 0x7D], [400]),
        insert("a number of 500 KB", #"{"rank":"# + many("9", 500_000) + "}", 400),
        insert("a fraction of 500 KB", #"{"weight":0."# + many("9", 500_000) + "}", 201, 400),
        insert("an exponent", #"{"weight":1e999999999999999999999}"#, 400),
        insert("a small exponent", #"{"rank":1e-999999999999999999999}"#, 400),
        insert("an integer by its exponent", #"{"rank":1e18}"#, 201),
        insert("too big an exponent", #"{"rank":1e30}"#, 400),
        insert("a whole number that would change", #"{"weight":9007199254740993}"#, 400),
        insert("many members", "{" + many(#""a":1,"#, 100_000) + #""b":1}"#, 400),
        insert("a member of 1 MB", #"{"\#(many("n", 1_000_000))":1}"#, 400),
        insert("a member twice", #"{"text":"a","TEXT":"b"}"#, 400),
        insert("over a megabyte", #"{"text":"\#(many("x", 1 << 20))"}"#, 413),
        insert("an id of 300 characters", #"{"id":"\#(many("i", 300))"}"#, 400),
        insert("an id with a slash", #"{"id":"a/../b"}"#, 400, 201),
        insert("a day that does not exist", #"{"due":"2021-02-30T00:00:00Z"}"#, 400),
        insert("a year of five digits", #"{"due":"99999-01-01T00:00:00Z"}"#, 400),
        insert("nothing", "", 400), insert("white space", many(" ", 500_000), 400),
        insert("another type", Array("<a/>".utf8), [415], type: "text/xml"),
        insert("a type of 5 KB", Array("{}".utf8), [415], type: many("x", 5000)),
        insert(
            "a patch of many operations",
            Array("[\(many(#"{"op":"test","path":"/text","value":1},"#, 20_000))]".utf8),
            [404, 400],
            method: "PATCH",
            target: "/tables/Note/none",
            type: "application/json-patch+json"
        ),
        HostileCase(
            "a body of ten gigabytes",
            Array(
                "POST /tables/Note HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999999\r\n\r\n".utf8
            ),
            [[413]]
        ),
    ]

    static let chunked: [HostileCase] = [
        chunks("chunks", "2\r\n{}\r\n0\r\n\r\n", [201]),
        chunks("a chunk of over 64 bits", "FFFFFFFFFFFFFFFFF\r\n{}", [413]),
        chunks("a chunk of 64 bits", "FFFFFFFFFFFFFFFF\r\n{}", [], [413], [400]),
        chunks("a chunk of 63 bits", "7FFFFFFFFFFFFFFF\r\n{}", [], [413], [400]),
        chunks("a negative chunk", "-2\r\n{}\r\n0\r\n\r\n", [400]),
        chunks("a chunk without size", "\r\n{}\r\n0\r\n\r\n", [400]),
        chunks("a size with prefix", "0x2\r\n{}\r\n0\r\n\r\n", [400]),
        chunks("a size with spaces", " 2 \r\n{}\r\n0\r\n\r\n", [400]),
        chunks("an endless size", many("0", 100_000), [400], [413], []),
        chunks("an endless extension", "2;" + many("x", 100_000), [400], [413], []),
        chunks("an endless trailer", "2\r\n{}\r\n0\r\nX: " + many("x", 100_000), [431], [400], []),
        chunks("many small chunks", many("1\r\n \r\n", 50_000) + "2\r\n{}\r\n0\r\n\r\n", [201]),
        chunks("no last chunk", "2\r\n{}\r\n", []),
        chunks("a NUL in the size", "2\0\r\n{}\r\n0\r\n\r\n", [400]),
    ]
}
