// TextNumberTests: 64-bit integers and decimals as strings, in requests and responses (IEEE754Compatible).

import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore

@Suite struct TextNumberTests {
    private static let table = Table(
        TableDefinition(
            "Thing",
            columns: [
                ColumnDefinition("big", .integer), ColumnDefinition("price", .decimal),
                ColumnDefinition("share", .number), ColumnDefinition("text", .string),
                ColumnDefinition("more", .json),
            ]
        )
    )

    @Test(
        "The IEEE754Compatible parameter of a JSON media type requests numbers as strings",
        arguments: [
            ("application/json;IEEE754Compatible=true", true),
            ("text/html, application/json; odata.metadata=none; ieee754compatible=TRUE", true),
            ("application/json;IEEE754Compatible=false", false), ("application/json", false),
            ("", false),
            ("application/json; charset=utf-8 ; IEEE754COMPATIBLE=\"true\";q=0.5", true),
            ("application/json;IEEE754Compatible=true;q=0, text/plain", false),
            ("text/plain;IEEE754Compatible=true, application/json", false),
            ("application/json-patch+json;IEEE754Compatible=true", true),
            ("*/*;IEEE754Compatible=true", true),
            ("application/json;IEEE754Compatible", false),
        ]
    )
    func asked(field: String, isAsked: Bool) {
        #expect(TextNumbers.isAsked(by: field) == isAsked)
    }

    @Test(
        "The integers and decimals of a row become strings",
        arguments: [
            (
                #"{"id":"a","big":9007199254740993,"price":1.10,"share":2.5}"#,
                #"{"id":"a","big":"9007199254740993","price":"1.10","share":2.5}"#
            ),
            (
                #"{"big":null,"price":"1","text":"5","more":{"big":5}}"#,
                #"{"big":null,"price":"1","text":"5","more":{"big":5}}"#
            ),
        ]
    )
    func answersAboutRows(body: String, expected: String) {
        let created = TextNumbers(of: Self.table).quoted(Array(body.utf8), .row)
        #expect(String(decoding: created, as: UTF8.self) == expected)
    }

    @Test(
        "The integers and decimals in the rows of a list become strings",
        arguments: [
            (#"[{"big":1},{"big":-2}]"#, #"[{"big":"1"},{"big":"-2"}]"#),
            (
                #"{"items":[{"big":1}],"count":1,"big":3}"#,
                #"{"items":[{"big":"1"}],"count":1,"big":3}"#
            ), (#"{"results":[{"big":1}],"count":1}"#, #"{"results":[{"big":"1"}],"count":1}"#),
        ]
    )
    func answersWithLists(body: String, expected: String) {
        let created = TextNumbers(of: Self.table).quoted(Array(body.utf8), .list)
        #expect(String(decoding: created, as: UTF8.self) == expected)
    }

    @Test(
        "Strings for integer and decimal columns in a body become numbers",
        arguments: [
            (
                #"{"Big":"9007199254740993","price":"-1.5e3","text":"5"}"#,
                #"{"Big":9007199254740993,"price":-1.5e3,"text":"5"}"#
            ),
            (#"{"big":"x","price":"01","share":"1"}"#, #"{"big":"x","price":"01","share":"1"}"#),
            (
                #"[{"op":"replace","value":"7","path":"/big"},{"op":"add","path":"/text","value":"7"}]"#,
                #"[{"op":"replace","value":7,"path":"/big"},{"op":"add","path":"/text","value":"7"}]"#
            ),
            (#"{"big":"1""#, #"{"big":"1""#),
        ]
    )
    func bodies(body: String, expected: String) {
        let created = TextNumbers(of: Self.table).unquoted(Array(body.utf8))
        #expect(String(decoding: created, as: UTF8.self) == expected)
    }

    // MARK: - Routes

    private static let big = "9007199254740993"
    private static let asks: HTTPFields = [
        "Accept": "text/html, application/json;q=0.9;ieee754compatible=TRUE",
        "Content-Type": "application/json; charset=utf-8; IEEE754Compatible=\"true\"",
    ]

    private static func server() async throws -> TestServer {
        let server = try await TestServer([table.definition])
        let body = #"{"id":"a","big":\#(big),"price":1.10,"share":2.5}"#
        #expect(await server.send("POST", "/tables/Thing", body).status == 201)
        return server
    }

    private static func check(_ answer: ServerResponse, _ words: [String] = []) {
        #expect(answer.text.contains(#""big":"\#(big)","price":"1.1""#), "\(answer.text)")
        let type = answer.headers["Content-Type"] ?? ""
        #expect(type.contains("IEEE754Compatible=true"), "\(type)")
    }

    @Test("Each route returns numbers as strings")
    func answers() async throws {
        let server = try await Self.server()
        let targets = [
            "/tables/Thing", "/tables/Thing/a", "/tables/Thing?$count=true&$top=1",
            "/tables/Thing?$select=big,price",
        ]
        for target in targets {
            Self.check(await server.send("GET", target, headers: Self.asks))
            Self.check(await server.send("GET", target, classic: true, headers: Self.asks))
        }
        Self.check(
            await server.send(
                "GET",
                "/tables/Thing?$inlinecount=allpages",
                classic: true,
                headers: Self.asks
            )
        )
        var track = Self.asks
        track.append("Prefer", "odata.track-changes")
        let first = await server.send("GET", "/tables/Thing", headers: track)
        let link = first.row["@odata.deltaLink"] as? String ?? ""
        #expect(await server.send("PATCH", "/tables/Thing/a", #"{"text":"x"}"#).status == 200)
        let delta = await server.handler.handle(
            ServerRequest(method: "GET", path: "/tables/Thing", query: link, headers: Self.asks)
        )
        Self.check(delta)
        // A rejection with the stored row.
        var stale = Self.asks
        stale.append("If-Match", "\"AAAAAAAAAAE=\"")
        let rejected = await server.send("PATCH", "/tables/Thing/a", "{}", headers: stale)
        #expect(rejected.status == 412)
        Self.check(rejected)
    }

    @Test("Each method accepts numbers as strings")
    func requests() async throws {
        let server = try await Self.server()
        let row = #"{"big":"\#(Self.big)","price":"1.10"}"#
        let created = await server.send("POST", "/tables/Thing", row, headers: Self.asks)
        #expect(created.status == 201)
        Self.check(created)
        Self.check(await server.send("PUT", "/tables/Thing/a", row, headers: Self.asks))
        Self.check(await server.send("PATCH", "/tables/Thing/a", row, headers: Self.asks))
        let classic = #"{"id":"a","big":"\#(Self.big)","price":"1.10"}"#
        Self.check(
            await server.send("PATCH", "/tables/Thing", classic, classic: true, headers: Self.asks)
        )
        var patch = Self.asks
        patch["Content-Type"] = "application/json-patch+json;ieee754compatible=true;charset=utf-8"
        let steps = #"[{"op":"test","path":"/big","value":"\#(Self.big)"}]"#
        Self.check(await server.send("PATCH", "/tables/Thing/a", steps, headers: patch))
        // Without the parameter a string is not a number.
        #expect(await server.send("PATCH", "/tables/Thing/a", row).status == 400)
    }

    @Test("A batch requests numbers as strings for all its requests, or a request for itself")
    func batches() async throws {
        let server = try await Self.server()
        let body = """
            {"requests":[
            {"id":"1","method":"patch","url":"tables/Thing/a","body":{"big":"\(Self.big)"}},
            {"id":"2","method":"get","url":"tables/Thing"},
            {"id":"3","method":"get","url":"$1"},
            {"id":"4","method":"get","url":"tables/Thing/a",
            "headers":{"accept":"application/json;IEEE754Compatible=false"}}]}
            """
        let answer = await server.send("POST", "/$batch", body, headers: Self.asks)
        Self.check(answer)
        let answers = answer.row["responses"] as? [[String: Any]] ?? []
        let bodies = answers.map { $0["body"] as? [String: Any] ?? [:] }
        #expect(bodies.count == 4 && bodies[0]["big"] is String && bodies[2]["big"] is String)
        #expect((bodies[1]["items"] as? [[String: Any]])?.first?["big"] is String)
        #expect(bodies[3]["big"] as? Int64 == 9_007_199_254_740_993, "\(bodies)")
        let own = """
            {"requests":[{"id":"1","method":"post","url":"tables/Thing",
            "headers":{"content-type":"application/json;IEEE754Compatible=true",
            "accept":"application/json;IEEE754Compatible=true"},
            "body":{"big":"\(Self.big)","price":"1.10"}},
            {"id":"2","method":"post","url":"tables/Thing","body":{"big":"1"}}]}
            """
        let mixed = await server.send("POST", "/$batch", own)
        #expect(mixed.text.contains(#""big":"\#(Self.big)""#), "\(mixed.text)")
        let statuses = (mixed.row["responses"] as? [[String: Any]])?.compactMap {
            $0["status"] as? Int
        }
        #expect(statuses == [201, 400])
    }
}
