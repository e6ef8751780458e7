// Features for operators: request ids, metrics, epoch, compressed responses, and the storage format.

import CZlib
import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelineSQLite
import TidelineServerCore
import TidelineServerSQLite

@Suite struct OperationTests {
    // MARK: - Request ids

    @Test("Every response has a request ID of its own") func everyAnswerHasAnID() async throws {
        let server = try await TestServer()
        var seen: Set<String> = []
        for target in ["/health", "/tables/TodoItem", "/tables/none", "/", "/tables/%zz"] {
            let answer = await server.send("GET", target)
            seen.insert(answer.headers["X-Request-ID"] ?? "")
        }
        #expect(seen.count == 5 && !seen.contains(""))
    }

    @Test(
        "The response has the caller's request ID if it is well-formed",
        arguments: [
            ("abc-1", true), ("a/b+c=.:_@", true), (String(repeating: "x", count: 128), true),
            (String(repeating: "x", count: 129), false), ("", false), ("a b", false),
            ("a\"", false),
            ("é", false), ("a,b", false),
        ]
    )
    func aWellFormedIDOfTheCallerIsKept(_ id: String, _ isKept: Bool) async throws {
        let answer = try await TestServer().send("GET", "/health", headers: ["x-request-id": id])
        #expect((answer.headers["X-Request-ID"] == id) == isKept)
        #expect(answer.headers["X-Request-ID"]?.isEmpty == false)
    }

    @Test("A log line contains the ID of its request") func logLinesNameTheRequest() async throws {
        let lines = Mutex("")
        let log = ServerLog(
            level: .debug,
            now: { 0 },
            sink: { line in lines.withLock { $0 += String(decoding: line, as: UTF8.self) } }
        )
        let server = try await TestServer(log: log)
        let answer = await server.send("GET", "/health", headers: ["X-Request-ID": "mine"])
        #expect(answer.headers["X-Request-ID"] == "mine")
        #expect(lines.withLock { $0 }.contains(#"request="mine""#))
    }

    @Test("A log line escapes control and invisible characters", arguments: [false, true])
    func logLinesEscapeControlCharacters(_ isJSON: Bool) async throws {
        let lines = Mutex<[UInt8]>([])
        let log = ServerLog(
            level: .debug,
            format: isJSON ? .json : .text,
            now: { 0 },
            sink: { line in lines.withLock { $0 += line } }
        )
        let hidden = [
            "\u{0}", "\n", "\r", "\t", "\u{1B}", "\u{7F}", "\u{85}", "\u{9B}", "\u{AD}", "\u{200B}",
            "\u{200E}", "\u{2028}", "\u{2029}", "\u{202E}", "\u{2066}", "\u{FEFF}", "\u{E0001}",
        ]
        let path = "/a\"b\\c é日😀" + hidden.joined(separator: "-")
        let server = try await TestServer(log: log)
        let request = ServerRequest(
            method: "GET",
            path: path,
            query: "",
            headers: ["ZUMO-API-VERSION": "2.0.0"],
            body: []
        )
        _ = await server.handler.handle(request)
        let text = String(decoding: lines.withLock { $0 }, as: UTF8.self)
        #expect(text.unicodeScalars.count { $0 == "\n" } == 1)
        #expect(text.hasSuffix("\n"))
        for scalar in hidden.joined().unicodeScalars where scalar != "\n" {
            #expect(!text.unicodeScalars.contains(scalar))
        }
        for shown in [
            "\\u0085", "\\u2028", "\\u202e", "\\u007f", "\\u000a", "\\udb40\\udc01", "é日😀",
            #"/a\"b\\c "#,
        ] {
            #expect(text.contains(shown), "\(text)")
        }
        guard isJSON else { return }
        let line = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any]
        let logged = try #require(line?["path"] as? String)
        #expect(logged.utf8.elementsEqual(path.utf8))
    }

    // MARK: - Epoch

    @Test("Responses to lists and writes contain the epoch of the database")
    func listsAndWritesCarryTheEpochOfTheDatabase() async throws {
        try await withTemporaryDirectory { directory in
            var epochs: Set<String> = []
            for name in ["a", "a", "b"] {
                let server = try await TestServer(path: "\(directory)/\(name).db")
                for isClassic in [true, false] {
                    let list = await server.send("GET", "/tables/TodoItem", classic: isClassic)
                    epochs.insert(list.headers["Tideline-Epoch"] ?? "")
                }
                let row = await server.send("POST", "/tables/TodoItem", "{}")
                #expect(epochs.contains(row.headers["Tideline-Epoch"] ?? ""))
                await server.store.stop()
            }
            #expect(epochs.count == 2 && !epochs.contains(""))
        }
    }

    // MARK: - Compressed responses

    @Test(
        "The Accept-Encoding field decides whether a response may be compressed",
        arguments: [
            ("gzip", true), ("GZIP", true), ("x-gzip", true), ("deflate, gzip;q=0.5", true),
            ("*", true), ("*;q=0.1", true), ("gzip; q=1.000", true),
            ("gzip;q=0.5,identity;q=0.5", true),
            ("identity, gzip;q=0.5", false), ("gzip;q=0", false), ("gzip;q=0.000, *", false),
            ("*;q=0", false), ("", false), ("br", false), ("gzip;q=2", false), ("gzip;q=x", false),
        ]
    )
    func acceptEncoding(_ field: String, _ isAccepted: Bool) {
        #expect(ContentCoding.acceptsGzip(["Accept-Encoding": field]) == isAccepted)
    }

    @Test("A large response is compressed and a small one is not")
    func largeAnswersAreCompressed() async throws {
        let server = try await TestServer()
        for index in 0..<40 {
            _ = await server.send("POST", "/tables/TodoItem", #"{"text":"row \#(index)"}"#)
        }
        let plain = await server.send("GET", "/tables/TodoItem")
        let small = await server.send(
            "GET",
            "/tables/TodoItem",
            headers: ["Accept-Encoding": "gzip, deflate"]
        )
        #expect(plain.headers["Content-Encoding"] == nil && plain.headers["Vary"] != nil)
        #expect(small.headers["Content-Encoding"] == "gzip")
        #expect(small.body.count * 3 < plain.body.count)
        // The header byte for the fastest level is 4.
        #expect(small.body[8] == 4)
        #expect(unzipped(small.body, count: plain.body.count) == plain.body)
        let tiny = await server.send(
            "GET",
            "/tables/TodoItem?$top=1",
            headers: ["Accept-Encoding": "gzip"]
        )
        #expect(tiny.headers["Content-Encoding"] == nil)
    }

    @Test("Incompressible bytes are not compressed")
    func incompressibleResponsesAreSentUnchanged() {
        var dice = Dice(1)
        let noise = (0..<5000).map { _ in UInt8(dice.roll(256)) }
        #expect(ContentCoding.gzip(noise) == nil)
    }

    private func unzipped(_ bytes: [UInt8], count: Int) -> [UInt8] {
        var bytes = bytes
        var result = [UInt8](repeating: 0, count: count + 1)
        var stream = z_stream()
        guard inflateInit2_(&stream, 31, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size)) == Z_OK
        else { return [] }
        defer { inflateEnd(&stream) }
        bytes.withUnsafeMutableBufferPointer { input in
            result.withUnsafeMutableBufferPointer { output in
                stream.next_in = input.baseAddress
                stream.avail_in = UInt32(input.count)
                stream.next_out = output.baseAddress
                stream.avail_out = UInt32(output.count)
                _ = inflate(&stream, Z_FINISH)
            }
        }
        return Array(result.prefix(Int(stream.total_out)))
    }

    // MARK: - Metrics

    @Test("The metrics count requests by route and status, and the rows sent and written")
    func metricsCount() async throws {
        let server = try await TestServer()
        for index in 0..<3 {
            _ = await server.send("POST", "/tables/TodoItem", #"{"id":"\#(index)"}"#)
        }
        _ = await server.send("POST", "/tables/TodoItem", #"{"id":"1"}"#)
        _ = await server.send("GET", "/tables/TodoItem")
        _ = await server.send("GET", "/tables/TodoItem/9")
        _ = await server.send("DELETE", "/tables/TodoItem/1")
        #expect(await server.send("GET", "/tables/TodoItem/$digest").status == 200)
        let answer = await server.send("GET", "/metrics")
        #expect(answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8")
        for line in [
            #"tideline_requests_total{route="insert",status="201"} 3"#,
            #"tideline_requests_total{route="insert",status="409"} 1"#,
            #"tideline_requests_total{route="list",status="200"} 1"#,
            #"tideline_requests_total{route="read",status="404"} 1"#,
            #"tideline_requests_total{route="delete",status="204"} 1"#,
            #"tideline_requests_total{route="digest",status="200"} 1"#,
            #"tideline_request_seconds_bucket{route="insert",le="+Inf"} 4"#,
            #"tideline_request_seconds_count{route="insert"} 4"#,
            "tideline_rows_sent_total 3", "tideline_rows_written_total 4",
            "tideline_write_queue_length 0", "tideline_log_bytes 0",
        ] {
            #expect(answer.text.split(separator: "\n").contains(Substring(line)), "\(answer.text)")
        }
        #expect(await server.send("POST", "/metrics").status == 405)
    }

    @Test("The metrics are rejected with 403 for callers that are not local")
    func metricsAreForLocalCallers() async throws {
        let server = try await TestServer(exposesMetrics: false)
        #expect(await server.send("GET", "/metrics").status == 403)
        #expect(await server.send("GET", "/health").status == 200)
    }

    @Test(
        "The scraper's key gives access to the metrics and to nothing else",
        arguments: [true, false],
        [nil, ["olga"]]
    )
    func aKeyGivesAccessToTheMetrics(_ isLoopback: Bool, _ operators: [String]?) async throws {
        let key = String(repeating: "k", count: 32)
        let server = try await TestServer(
            exposesMetrics: isLoopback,
            operators: operators,
            scrapeKey: key,
            authenticator: operators == nil ? nil : try Tokens.authenticator()
        )
        for (fields, status) in [
            (["Authorization": "Bearer " + key], 200), (["Authorization": "bearer  " + key], 200),
            ([:], 401), (["Authorization": "Bearer " + key + "k"], 401),
            (["Authorization": "Bearer " + key.dropLast() + "j"], 401),
            (["Authorization": "Basic " + key], 401), (["X-ZUMO-AUTH": key], 401),
        ] as [(HTTPFields, Int)] {
            let answer = await server.send("GET", "/metrics", headers: fields)
            #expect(answer.status == status, "\(fields)")
            #expect((answer.headers["WWW-Authenticate"] != nil) == (status == 401))
        }
        guard operators != nil else { return }
        let fields: HTTPFields = ["Authorization": "Bearer " + key]
        #expect(await server.send("GET", "/tables/TodoItem", headers: fields).status == 401)
        for (user, status) in [("olga", 200), ("anna", 403)] {
            let answer = await server.send("GET", "/metrics", headers: try Tokens.headers(user))
            #expect(answer.status == status, "\(user)")
        }
    }

    /// The list of operators applies on loopback too, because a proxy may be in front of the server.
    @Test(
        "Only operators may read the metrics if operators are configured",
        arguments: [true, false]
    )
    func metricsAreForOperatorsIfThereAreAny(_ isLoopback: Bool) async throws {
        let server = try await TestServer(
            exposesMetrics: isLoopback,
            operators: ["olga", "e\u{301}"],
            authenticator: try Tokens.authenticator()
        )
        #expect(await server.send("GET", "/metrics").status == 401)
        for (user, status) in [
            ("olga", 200), ("anna", 403), ("Olga", 403), ("e\u{301}", 200), ("\u{E9}", 403),
        ] {
            let answer = await server.send("GET", "/metrics", headers: try Tokens.headers(user))
            #expect(answer.status == status, "\(user)")
        }
    }
}
