// Names that databases reserve are rejected, and a table that already has such a column is served correctly.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServer
import TidelineServerCore
import TidelineServerSQLite

@Suite struct ReservedNameTests {
    static let names = [
        "rowid", "ROWID", "_rowid_", "oid", "ctid", "Xmin", "xmax", "cmin", "cmax", "tableoid",
    ]

    @Test("A configuration with a column of a reserved name is rejected", arguments: names)
    func configuration(_ name: String) {
        let json = #"{"tables":{"TodoItem":{"columns":{"\#(name)":"integer"}}}}"#
        #expect(throws: ConfigurationError.self) {
            try ServerConfiguration(json: Array(json.utf8))
        }
    }

    @Test(
        "A dynamic schema creates no column with a reserved name",
        arguments: names + ["null", "true", "NOT", "and", "eq", "in", "desc"]
    )
    func dynamic(_ name: String) async throws {
        let server = try await TestServer([], dynamic: true)
        #expect(await server.send("POST", "/tables/T", #"{"\#(name)":5}"#).status == 400)
        #expect(await server.send("POST", "/tables/T", #"{"text":"x"}"#).status == 201)
    }

    @Test("A purge removes no live row of a table with a column 'rowid'")
    func purge() async throws {
        let clock = TestClock()
        var table = TableDefinition(
            "T",
            columns: [ColumnDefinition("rowid", .integer), ColumnDefinition("oid", .integer)]
        )
        table.tombstoneDays = 1
        let server = try await TestServer([table], onPostgres: false, clock: clock)
        for (id, number) in [("gone", 7), ("a", 7), ("b", 7), ("c", 8)] {
            let body = #"{"id":"\#(id)","rowid":\#(number),"oid":1}"#
            #expect(await server.send("POST", "/tables/T", body).status == 201)
        }
        #expect(await server.send("DELETE", "/tables/T/gone").status == 204)
        for _ in 0..<100 {
            clock.move(by: 3_600_000_000)
            try await server.purge()
        }
        #expect(await server.send("GET", "/tables/T").ids.sorted() == ["a", "b", "c"])
        let all = await server.send("GET", "/tables/T?__includedeleted=true", classic: true)
        #expect(all.rows.count == 3)
    }

    @Test("A migration converts each row of a table with a column 'rowid'")
    func migration() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let columns = [ColumnDefinition("rowid", .integer), ColumnDefinition("n", .integer)]
            let server = try await TestServer([TableDefinition("T", columns: columns)], path: path)
            for (id, number) in [("a", 2), ("b", 1), ("c", 2)] {
                let body = #"{"id":"\#(id)","rowid":\#(number),"n":\#(number * 10)}"#
                #expect(await server.send("POST", "/tables/T", body).status == 201)
            }
            await server.store.stop()
            let changed = TableDefinition(
                "T",
                columns: [ColumnDefinition("rowid", .integer), ColumnDefinition("n", .string)]
            )
            _ = try DatabaseMaintenance(path: path)
                .migrate([changed], isComplete: true, now: { 1_900_000_000_000_000 })
            let again = try await TestServer([changed], path: path)
            let rows = await again.send("GET", "/tables/T?$orderby=id").rows
            #expect(rows.map { $0["n"] as? String } == ["20", "10", "20"])
            await again.store.stop()
        }
    }
}
