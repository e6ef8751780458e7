// The effect of writes on a row, and the contents of responses.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore

@Suite struct RowTests {
    @Test("An insert returns the stored row") func insertReturnsTheStoredRow() async throws {
        // The clock does not advance: databases read it as often as they need.
        let server = try await TestServer(clock: TestClock(1_800_000_000_003_000, step: 0))
        let answer = await server.send(
            "POST",
            "/tables/todoitem",
            #"{"complete":true,"text":"a\"\n\u00e9"}"#,
            classic: true
        )
        #expect(answer.status == 201)
        #expect(
            answer.text
                == #"{"id":"id-1","text":"a\"\né","complete":true,"rank":null,"#
                + #""createdAt":"2027-01-15T08:00:00.003Z","updatedAt":"2027-01-15T08:00:00.003Z","#
                + #""version":"AAZlFyiYi7g=","deleted":false}"#
        )
        #expect(answer.headers["ETag"] == #""AAZlFyiYi7g=""#)
        #expect(answer.headers["Last-Modified"] == "Fri, 15 Jan 2027 08:00:00 GMT")
        #expect(
            answer.headers["Location"] == "http://example.test:8080/tables/TodoItem/id-1"
        )
        let read = await server.send("GET", "/tables/TodoItem/id-1")
        #expect(read.body == answer.body)
        #expect(read.headers["ETag"] == answer.headers["ETag"])
    }

    @Test("An insert with an existing id is rejected with the stored row")
    func anExistingIDReturnsTheStoredRow() async throws {
        let server = try await TestServer()
        let first = await server.send("POST", "/tables/TodoItem", #"{"id":"a","text":"first"}"#)
        let second = await server.send("POST", "/tables/TodoItem", #"{"id":"a","text":"second"}"#)
        #expect(second.status == 409)
        #expect(second.body == first.body)
        #expect(second.headers["ETag"] == first.headers["ETag"])
        _ = await server.send("DELETE", "/tables/TodoItem/a")
        let third = await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#, classic: true)
        #expect(third.status == 409)
        #expect(third.row["deleted"] as? Bool == true)
    }

    @Test("A PATCH changes the given columns and a PUT replaces the row")
    func patchMergesAndPutReplaces() async throws {
        let server = try await TestServer()
        _ = await server.send("POST", "/tables/TodoItem", #"{"id":"a","text":"x","rank":1}"#)
        let merged = await server.send("PATCH", "/tables/TodoItem/a", #"{"complete":true}"#)
        #expect(merged.row["text"] as? String == "x")
        #expect(merged.row["complete"] as? Bool == true)
        let replaced = await server.send("PUT", "/tables/TodoItem/a", #"{"Rank":7}"#)
        #expect(replaced.row["text"] is NSNull)
        #expect(replaced.row["complete"] as? Bool == false)
        #expect(replaced.row["rank"] as? Int == 7)
        #expect(replaced.row["createdAt"] as? String == merged.row["createdAt"] as? String)
    }

    @Test("A write with a stale If-Match is rejected with the stored row")
    func ifMatchProtectsTheRowAndReturnsIt() async throws {
        let server = try await TestServer()
        let first = await server.send("POST", "/tables/TodoItem", #"{"id":"a","text":"x"}"#)
        let tag = first.headers["ETag"] ?? ""
        let good = await server.send(
            "PATCH",
            "/tables/TodoItem/a",
            #"{"text":"y"}"#,
            headers: ["If-Match": tag]
        )
        #expect(good.status == 200)
        for method in ["PATCH", "PUT", "DELETE"] {
            let stale = await server.send(
                method,
                "/tables/TodoItem/a",
                method == "DELETE" ? nil : "{}",
                headers: ["If-Match": tag]
            )
            #expect(stale.status == 412)
            #expect(stale.body == good.body)
            #expect(stale.headers["ETag"] == good.headers["ETag"])
        }
        let listed = await server.send(
            "PATCH",
            "/tables/TodoItem/a",
            "{}",
            headers: ["If-Match": "\(tag), \(good.headers["ETag"] ?? "")"]
        )
        #expect(listed.status == 200)
        let weak = await server.send(
            "GET",
            "/tables/TodoItem/a",
            headers: ["If-None-Match": "W/\(listed.headers["ETag"] ?? "")"]
        )
        #expect(weak.status == 200)
        let fresh = await server.send(
            "GET",
            "/tables/TodoItem/a",
            headers: ["If-None-Match": listed.headers["ETag"] ?? ""]
        )
        #expect(fresh.status == 304)
        #expect(fresh.body.isEmpty)
    }

    @Test("The version in the body of a classic update is a precondition")
    func theClassicVersionInTheBodyIsAPrecondition() async throws {
        let server = try await TestServer()
        let first = await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#, classic: true)
        let version = first.row["version"] as? String ?? ""
        let body = #"{"text":"y","version":"\#(version)"}"#
        let good = await server.send("PATCH", "/tables/TodoItem/a", body, classic: true)
        #expect(good.status == 200)
        let stale = await server.send("PATCH", "/tables/TodoItem/a", body, classic: true)
        #expect(stale.status == 409)
        #expect(stale.body == good.body)
    }

    @Test("A tombstone keeps its values and can be undeleted")
    func tombstonesKeepTheirDataAndCanBeUndeleted() async throws {
        let server = try await TestServer()
        _ = await server.send("POST", "/tables/TodoItem", #"{"id":"a","text":"x"}"#)
        let deleted = await server.send("DELETE", "/tables/TodoItem/a")
        #expect(deleted.status == 204)
        #expect(deleted.body.isEmpty)
        #expect(await server.send("GET", "/tables/TodoItem").ids == [])
        let all = await server.send("GET", "/tables/TodoItem?__includedeleted=true")
        #expect(all.rows.first?["deleted"] as? Bool == true)
        #expect(all.rows.first?["text"] as? String == "x")
        let back = await server.send("POST", "/tables/TodoItem/a", classic: true)
        #expect(back.status == 201)
        #expect(back.row["deleted"] as? Bool == false)
        #expect(await server.send("GET", "/tables/TodoItem").ids == ["a"])
    }

    @Test("A row over the size limit is rejected with 413")
    func largeRowsAreRejected() async throws {
        var limits = ServerLimits()
        limits.rowBytes = 40_000
        let columns = ["a", "b", "c"].map { ColumnDefinition($0, .string) }
        let server = try await TestServer(
            [TableDefinition("Big", columns: columns)],
            limits: limits
        )
        let long = String(repeating: "x", count: 40_000)
        #expect(await server.send("POST", "/tables/Big", #"{"a":"\#(long)"}"#).status == 413)
        let text = long.dropLast(100)
        #expect(
            await server.send("POST", "/tables/Big", #"{"id":"1","a":"\#(text)"}"#).status == 201
        )
        #expect(await server.send("PATCH", "/tables/Big/1", #"{"b":"\#(text)"}"#).status == 200)
        #expect(await server.send("PATCH", "/tables/Big/1", #"{"c":"\#(text)"}"#).status == 413)
        #expect(await server.send("GET", "/tables/Big/1").row["c"] is NSNull)
    }
}
