// Schemas: created from incoming data, changed at startup, and rejected if data would be lost.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore
import TidelineServerSQLite

@Suite struct SchemaTests {
    @Test("A dynamic table gets new columns and rejects values of other types")
    func dynamicTablesGrow() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let server = try await TestServer([], path: path, dynamic: true)
            #expect(await server.send("GET", "/tables/New").rows.isEmpty)
            #expect(await server.send("GET", "/tables/New?$filter=a eq 1").status == 200)
            #expect(await server.send("GET", "/tables/New?$filter=(").status == 200)
            #expect(await server.send("GET", "/tables/tideline_tables").status == 404)
            #expect(await server.send("POST", "/tables/sqlite_x", "{}").status == 400)
            let created = await server.send("POST", "/tables/New", #"{"id":"1","a":"x","n":null}"#)
            #expect(created.status == 201)
            #expect(created.row["a"] as? String == "x")
            #expect(created.row["n"] == nil)
            let wider = await server.send("PATCH", "/tables/new/1", #"{"n":1.5,"b":true}"#)
            #expect(wider.row["n"] as? Double == 1.5)
            #expect(wider.row["b"] as? Bool == true)
            #expect(await server.send("POST", "/tables/New", #"{"a":5}"#).status == 400)
            #expect(await server.send("POST", "/tables/New", #"{"o":{}}"#).status == 400)
            #expect(await server.send("POST", "/tables/New", #"{"x y":1}"#).status == 400)
            #expect(await server.send("POST", "/tables/New", #"{"__x":1}"#).status == 400)
            #expect(await server.send("GET", "/tables/New?$filter=zz eq 1").rows.isEmpty)
            await server.store.stop()
            let again = try await TestServer([], path: path, dynamic: true)
            #expect(await again.send("GET", "/tables/New?$filter=n gt 1").ids == ["1"])
            await again.store.stop()
            let fixed = try await TestServer([], path: path)
            #expect(await fixed.send("GET", "/tables/New").status == 404)
            await fixed.store.stop()
        }
    }

    @Test("A dynamic column stores numbers exactly or rejects them")
    func dynamicNumbersStayExact() async throws {
        let server = try await TestServer([], dynamic: true)
        let big = "9007199254740993"
        let created = await server.send(
            "POST",
            "/tables/N",
            #"{"id":"1","whole":\#(big),"small":1}"#
        )
        #expect(created.text.contains(#""whole":\#(big)"#), "\(created.text)")
        let list = await server.send("GET", "/tables/N?$filter=whole eq \(big)")
        #expect(list.ids == ["1"])
        for body in [
            #"{"small":\#(big)}"#, #"{"whole":1.5}"#, #"{"whole":9223372036854775808}"#,
            #"{"other":92233720368547758070001}"#,
        ] {
            let answer = await server.send("PATCH", "/tables/N/1", body)
            #expect(answer.status == 400)
            let name = body.split(separator: "\"")[1]
            #expect(answer.error.contains("'\(name)'"), "\(answer.text)")
        }
        // As JavaScript formats a double: the digits that distinguish it from others, then zeros.
        let body = #"{"small":123456789012345680000,"whole":-9223372036854775808}"#
        let wide = await server.send("PATCH", "/tables/N/1", body)
        #expect(wide.text.contains(#""small":1.2345678901234568e+20"#), "\(wide.text)")
        #expect(wide.text.contains(#""whole":-9223372036854775808"#), "\(wide.text)")
    }

    @Test("Columns that are added concurrently are all created")
    func concurrentlyAddedColumnsAreAllCreated() async throws {
        try await withTemporaryDirectory { directory in
            let server = try await TestServer([], path: directory + "/a.db", dynamic: true)
            await withTaskGroup(of: Void.self) { group in
                for index in 0..<30 {
                    group.addTask {
                        let body = #"{"id":"\#(index)","c\#(index % 10)":\#(index)}"#
                        let answer = await server.send("POST", "/tables/Wide", body)
                        #expect(answer.row["c\(index % 10)"] as? Int == index, "\(answer.text)")
                    }
                }
            }
            #expect(await server.send("GET", "/tables/Wide?$count=true").row["count"] as? Int == 30)
            await server.store.stop()
        }
    }

    @Test("A server adds a declared column with its default at the start")
    func columnsAreAddedAtAStart() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let old = try await TestServer(path: path)
            _ = await old.send("POST", "/tables/TodoItem", #"{"id":"a","text":"x"}"#)
            await old.store.stop()
            var table = TestServer.todo
            table.schema.columns.insert(
                ColumnDefinition("state", .string, nullable: false, default: "it's new"),
                at: 0
            )
            table.indexes = [["state"]]
            let new = try await TestServer([table], path: path)
            let row = await new.send("GET", "/tables/TodoItem/a")
            #expect(row.text.hasPrefix(#"{"id":"a","state":"it's new","text":"x","#))
            await new.store.stop()
        }
    }
}
