// Conditional requests through the in-process server: every header field on every method, with response bodies.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore

@Suite struct ConditionTests {
    /// `{tag}` stands for the tag of the row; the test clock is at 08:00:00 on that day.
    static let cases: [(field: String, value: String, read: Int, write: Int)] = [
        ("If-Match", "{tag}", 200, 200), ("If-Match", "*", 200, 200),
        ("If-Match", "\"x\", {tag}", 200, 200), ("If-Match", "W/{tag}", 412, 412),
        ("If-Match", #""a\"b""#, 412, 412), ("If-Match", #""a\"b", {tag}"#, 200, 200),
        ("If-Match", #""a\""#, 412, 412),
        ("If-Match", "W/{tag}, \"x\"", 412, 412), ("If-Match", "\"x\"", 412, 412),
        ("If-Match", "\"", 400, 400), ("If-Match", "", 400, 400),
        ("If-None-Match", "{tag}", 304, 412), ("If-None-Match", "*", 304, 412),
        ("If-None-Match", "\"x\", {tag}", 304, 412), ("If-None-Match", "\"x\"", 200, 200),
        ("If-None-Match", "W/{tag}", 200, 200), ("If-None-Match", "a b", 400, 400),
        ("If-Unmodified-Since", "Fri, 15 Jan 2027 08:00:00 GMT", 200, 200),
        ("If-Unmodified-Since", "Fri, 15 Jan 2027 07:00:00 GMT", 412, 412),
        ("If-Unmodified-Since", "Friday, 15-Jan-27 07:00:00 GMT", 412, 412),
        ("If-Unmodified-Since", "yesterday", 200, 200),
        ("If-Modified-Since", "Fri, 15 Jan 2027 08:00:00 GMT", 304, 412),
        ("If-Modified-Since", "Fri, 15 Jan 2027 07:00:00 GMT", 200, 200),
        ("If-Modified-Since", "Fri Jan 15 09:00:00 2027", 304, 412),
    ]

    @Test("Each condition applies to reads and writes of a row", arguments: cases, [true, false])
    func applyToEveryMethod(
        _ item: (field: String, value: String, read: Int, write: Int),
        _ isClassic: Bool
    ) async throws {
        for (method, success) in [("GET", 200), ("PATCH", 200), ("PUT", 200), ("DELETE", 204)] {
            let server = try await TestServer()
            let created = await server.send("POST", "/tables/TodoItem", #"{"id":"a","text":"x"}"#)
            let tag = created.headers["ETag"] ?? ""
            let answer = await server.send(
                method,
                "/tables/TodoItem/a",
                ["GET", "DELETE"].contains(method) ? nil : "{}",
                classic: isClassic,
                headers: [item.field: item.value.replacing("{tag}", with: tag)]
            )
            let expected = method == "GET" ? item.read : item.write
            let status = expected == 200 ? success : expected
            #expect(answer.status == status, "\(method) \(answer.text)")
            switch status {
            case 304:
                #expect(answer.body.isEmpty && answer.headers["Content-Type"] == nil)
                #expect(answer.headers["ETag"] == tag)
                #expect(answer.headers["Last-Modified"] != nil)
            case 412:
                #expect(answer.body == created.body && answer.headers["ETag"] == tag)
                #expect(answer.headers["Last-Modified"] == created.headers["Last-Modified"])
            default: break
            }
        }
    }

    @Test("Lists and inserts ignore conditions") func listsAndInsertsIgnoreThem() async throws {
        let server = try await TestServer()
        for field in ["If-Match", "If-None-Match"] {
            let headers: HTTPFields = [field: "*"]
            let list = await server.send("GET", "/tables/TodoItem", headers: headers)
            #expect(list.status == 200 && list.headers["ETag"] == nil)
            let created = await server.send("POST", "/tables/TodoItem", "{}", headers: headers)
            #expect(created.status == 201)
        }
    }
}
