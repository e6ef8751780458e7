// Tokens of next links: a token that no response of this server contains is rejected with 400, whatever its content.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore

@Suite struct PageTokenTests {
    private static let table = TableDefinition(
        "Thing",
        columns: [
            ColumnDefinition("text", .string), ColumnDefinition("whole", .integer),
            ColumnDefinition("number", .number), ColumnDefinition("price", .decimal),
            ColumnDefinition("done", .boolean), ColumnDefinition("due", .dateTime),
            ColumnDefinition("day", .date), ColumnDefinition("key", .guid),
            ColumnDefinition("bytes", .binary),
            ColumnDefinition("size", .enumeration(["small", "large"])),
        ]
    )

    private static func target(_ order: String, _ token: String) -> String {
        "/tables/Thing?$orderby=\(order)&$skiptoken=\(Base64URL.encode(Array(token.utf8)))"
    }

    private static let rejected: [(order: String, token: String)] = [
        // Times without a text representation.
        ("updatedAt", #"[-9223372036854775808,"a"]"#),
        ("updatedAt", #"[9223372036854775807,"a"]"#),
        ("updatedAt desc", #"[-62135596800000001,"a"]"#),
        ("due", #"[253402300800000000,"a"]"#), ("due", #"["2026-01-01T00:00:00Z","a"]"#),
        ("createdAt", #"[1.5,"a"]"#), ("cast(text,'Edm.DateTimeOffset')", #"[1e300,"a"]"#),
        // Keys of another type.
        ("text", #"[1,"a"]"#), ("text", #"[["AA=="],"a"]"#), ("whole", #"["1","a"]"#),
        ("whole", #"[9223372036854775808,"a"]"#), ("whole", #"[1.5,"a"]"#),
        ("number", #"["1","a"]"#), ("price", #"["x","a"]"#), ("price", #"["","a"]"#),
        ("price", #"[1,"a"]"#), ("done", #"[2,"a"]"#), ("done", #"[true,"a"]"#),
        ("day", #"[1,"a"]"#), ("key", #"[["AA=="],"a"]"#), ("bytes", #"["AA==","a"]"#),
        ("bytes", #"[["A"],"a"]"#), ("bytes", #"[[],"a"]"#), ("size", #"["small","a"]"#),
        ("version", #"["AAAAAAAAAAE=","a"]"#), ("length(text)", #"["1","a"]"#),
        ("id", "[1]"), ("id", "[null]"), ("text", #"[null,null]"#), ("text", #"["a",1]"#),
        // Too many keys, too few keys, and no keys.
        ("text", #"["a"]"#), ("text", #"["a","b","c"]"#), ("text", "[]"), ("text", "{}"),
        ("text", "null"), ("text", #"["a","b"]x"#), ("text", #"["a","b""#),
        ("text", #"["a","\ud800"]"#), ("text", "\u{0}"), ("text", #"[{"a":1},"a"]"#),
    ]

    @Test(
        "A page token with keys that do not fit the order is rejected with 400",
        arguments: rejected
    )
    func isRejected(_ order: String, _ token: String) async throws {
        let server = try await TestServer([Self.table])
        _ = await server.send("POST", "/tables/Thing", #"{"id":"a"}"#)
        for classic in [true, false] {
            let answer = await server.send("GET", Self.target(order, token), classic: classic)
            #expect(answer.status == 400)
            #expect(answer.error.contains("$skiptoken"))
        }
    }

    private static let edges: [(order: String, token: String, rows: Int)] = [
        ("updatedAt", #"[-62135596800000000,""]"#, 1),
        ("updatedAt", #"[253402300799999999,""]"#, 0),
        ("due desc", #"[253402300799999999,""]"#, 1), ("due", #"[null,""]"#, 1),
        ("whole", #"[-9223372036854775808,""]"#, 1),
        ("whole desc", #"[9223372036854775807,""]"#, 1), ("number", #"[-1e999,""]"#, 1),
        ("number", #"[1e999,""]"#, 0), ("number", #"[9223372036854775807,""]"#, 0),
        ("version", #"[-9223372036854775808,""]"#, 1), ("id", #"["a"]"#, 1),
    ]

    @Test(
        "A page token with the least or the greatest value of a key leads to a page",
        arguments: edges
    )
    func isAcceptedAtTheLimits(_ order: String, _ token: String, _ rows: Int) async throws {
        let server = try await TestServer([Self.table])
        let body = #"{"id":"b","whole":1,"number":1.5,"due":"2026-01-01T00:00:00Z"}"#
        _ = await server.send("POST", "/tables/Thing", body)
        let answer = await server.send("GET", Self.target(order, token))
        #expect(answer.status == 200, "\(answer.text)")
        #expect(answer.ids.count == rows)
    }

    private static let orders: [String] = [
        "text", "text desc", "whole,text", "number desc", "price", "price desc", "done,whole",
        "due", "due desc,id desc", "day", "key desc", "bytes", "bytes desc", "size,price desc",
        "version", "version desc", "createdAt,updatedAt", "length(text),whole desc",
        "whole mul price", "number add price desc", "cast(text,'Edm.String') desc",
        "text eq 'b' desc,price", "null,whole", "'x',1,1.5,whole", "round(price),day desc",
    ]

    @Test("The page tokens of every order lead through all rows", arguments: orders)
    func leadsThroughAllRows(_ order: String) async throws {
        var table = Self.table
        table.pageSize = 3
        let server = try await TestServer([table])
        for index in 0..<12 {
            let body =
                index % 4 == 3
                ? #"{"id":"\#(index)"}"#
                : """
                {"id":"\(index)","text":"\(index % 3)é","whole":\(index % 5),"number":\(index).5,\
                "price":\(index % 2).10,"done":\(index % 2 == 0),"day":"2026-01-0\(index % 7 + 1)",\
                "due":"\(1001 + index % 2 * 1000)-01-01T00:00:00.\(index)Z","bytes":"AAE=",\
                "key":"0e98b4ff-0000-4000-8000-00000000000\(index % 3)","size":"small"}
                """
            let created = await server.send("POST", "/tables/Thing", body)
            #expect(created.status == 201, "\(created.text)")
        }
        let all = await server.send(
            "GET",
            "/tables/Thing?$top=100&$orderby=\(order)",
            classic: true
        )
        var ids: [String] = []
        var target: String? = "/tables/Thing?$orderby=\(order)"
        while let current = target {
            let answer = await server.send("GET", current)
            #expect(answer.status == 200, "\(answer.text)")
            ids += answer.ids
            target = (answer.row["nextLink"] as? String).map { "/tables/Thing?" + $0 }
        }
        #expect(ids.count == 12)
        #expect(ids == all.ids)
    }

    // MARK: - Long keys

    private static let longOrders: [String] = [
        "text", "text desc", "number,text desc,whole", "bytes desc,text", "tolower(text)",
        "text desc,whole,number,price,done,due,day,key,size,createdAt,updatedAt",
    ]

    private func long() async throws -> TestServer {
        var table = Self.table
        table.pageSize = 2
        table.softDelete = false
        let server = try await TestServer([table])
        for index in 0..<9 {
            // Strings with the same leading kilobytes, some of them equal.
            let text = String(repeating: "é\u{10FFFF}", count: 1000) + "\(index / 2)"
            let bytes = Data(repeating: 0xFF, count: 3000) + [UInt8(index / 3)]
            let body = """
                {"id":"\(index)","text":"\(text)","whole":\(index % 2),"number":\(index % 4),\
                "bytes":"\(bytes.base64EncodedString())"}
                """
            #expect(await server.send("POST", "/tables/Thing", body).status == 201)
        }
        return server
    }

    @Test("A page token stays short because a long key is read from its row", arguments: longOrders)
    func aLongKeyIsReadFromItsRow(_ order: String) async throws {
        let server = try await long()
        let all = await server.send(
            "GET",
            "/tables/Thing?$orderby=\(order)&$top=100",
            classic: true
        )
        var ids: [String] = []
        var target: String? = "/tables/Thing?$orderby=\(order)&$select=whole,id"
        while let current = target {
            #expect(current.utf8.count < 2500)
            let answer = await server.send("GET", current)
            #expect(answer.status == 200, "\(answer.text)")
            ids += answer.ids
            target = (answer.row["nextLink"] as? String).map { "/tables/Thing?" + $0 }
        }
        #expect(ids.count == 9)
        #expect(ids == all.ids)
    }

    @Test(
        "No row is lost when the row of a next link changes or is deleted",
        arguments: longOrders,
        ["PATCH", "DELETE"]
    )
    func noRowIsLostWhenTheRowOfTheLinkChanges(_ order: String, _ method: String) async throws {
        let server = try await long()
        var seen: Set<String> = []
        var target: String? = "/tables/Thing?$orderby=\(order)"
        var turns = 0
        while let current = target, turns < 50 {
            turns += 1
            let answer = await server.send("GET", current)
            #expect(answer.status == 200, "\(answer.text)")
            seen.formUnion(answer.ids)
            target = (answer.row["nextLink"] as? String).map { "/tables/Thing?" + $0 }
            guard turns < 3, target != nil, let last = answer.ids.last else { continue }
            let body = method == "PATCH" ? #"{"text":"a","bytes":null}"# : nil
            let status = await server.send(method, "/tables/Thing/\(last)", body).status
            #expect(status == (method == "PATCH" ? 200 : 204))
        }
        #expect(turns < 50)
        #expect(seen.count == 9)
    }

    private static let rejectedMarks: [(order: String, token: String)] = [
        ("text", #"{"id":"a","version":1,"keys":["a","b"]}"#),
        ("text", #"{"id":"a","version":1,"keys":["a"],"prefix":"b"}"#),
        ("text", #"{"id":"a","version":1,"keys":[],"prefix":1}"#),
        ("text", #"{"id":"a","version":1,"keys":[],"prefix":null}"#),
        ("whole", #"{"id":"a","version":1,"keys":[],"prefix":"b"}"#),
        ("price", #"{"id":"a","version":1,"keys":[],"prefix":"1"}"#),
        ("id", #"{"id":"a","version":1,"keys":[],"prefix":"1"}"#),
        ("updatedAt,text", #"{"id":"a","version":1,"keys":[-9223372036854775808],"prefix":"1"}"#),
        ("text", #"{"id":1,"version":1,"keys":[]}"#),
        ("text", #"{"id":"a","version":"1","keys":[]}"#),
        ("text", #"{"id":"a","version":1,"keys":[],"x":1}"#), ("text", #"{"id":"a","id":"a"}"#),
    ]

    @Test("A malformed page token for a long key is rejected with 400", arguments: rejectedMarks)
    func aTokenOfAnotherTypeIsRejected(_ order: String, _ token: String) async throws {
        let server = try await TestServer([Self.table])
        #expect(await server.send("GET", Self.target(order, token)).status == 400)
    }
}
