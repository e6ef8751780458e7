// Groups of a batch on a dynamic schema: a member sees the table and the columns that earlier members create; either
// all of them are created or none.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore
import TidelineServerSQLite

@Suite struct BatchGrowthTests {
    private static func parts(last: Int = 1) -> [BatchPart] {
        [
            BatchPart("1", "post", "tables/Fresh", #"{"id":"a","x":1}"#, group: "g"),
            BatchPart("2", "patch", "tables/fresh/a", #"{"y":"why"}"#, group: "g"),
            BatchPart("3", "put", "$1", #"{"id":"a","x":2,"z":true}"#, group: "g"),
            BatchPart("4", "post", "tables/Fresh", #"{"id":"b","w":\#(last)}"#, group: "g"),
        ]
    }

    @Test(
        "Requests of a group use tables and columns that earlier requests created",
        arguments: [true, false]
    )
    func membersSeeWhatEarlierMembersCreate(_ isInMemory: Bool) async throws {
        try await withTemporaryDirectory { directory in
            let path = isInMemory ? nil : directory + "/a.db"
            let server = try await TestServer([], path: path, dynamic: true)
            let answer = await server.batch(Self.parts())
            #expect(answer.partStatuses == [201, 200, 200, 201], "\(answer.text)")
            #expect(answer.partBody(1)["x"] as? Int == 1)
            #expect(answer.partBody(1)["y"] as? String == "why")
            #expect(answer.partBody(2)["z"] as? Bool == true)
            let rows = await server.send("GET", "/tables/Fresh").rows
            #expect(rows.map { $0["x"] as? Int } == [2, nil])
            #expect(rows.map { $0["w"] as? Int } == [nil, 1])
            let again = await server.send("PATCH", "/tables/Fresh/b", #"{"y":"more"}"#)
            #expect(again.status == 200 && again.row["y"] as? String == "more")
            await server.store.stop()
        }
    }

    @Test(
        "A rejected group creates no table, which can then be created differently",
        arguments: [true, false]
    )
    func aRejectedGroupCreatesNothing(_ isInMemory: Bool) async throws {
        try await withTemporaryDirectory { directory in
            let path = isInMemory ? nil : directory + "/a.db"
            let server = try await TestServer([], path: path, dynamic: true)
            var parts = Self.parts()
            parts.append(BatchPart("5", "patch", "tables/Fresh/none", #"{"v":1}"#, group: "g"))
            let answer = await server.batch(parts, continuing: true)
            #expect(answer.partStatuses == [424, 424, 424, 424, 404], "\(answer.text)")
            #expect(await server.send("PATCH", "/tables/Fresh/a", "{}").status == 404)
            #expect(await server.send("GET", "/tables/Fresh").rows.isEmpty)
            // With a type other than the group's.
            let created = await server.send("POST", "/tables/Fresh", #"{"id":"a","x":"text"}"#)
            #expect(
                created.status == 201 && created.row["x"] as? String == "text",
                "\(created.text)"
            )
            #expect(created.row["y"] == nil)
            await server.store.stop()
        }
    }

    @Test("A rejected group does not add columns to an existing table")
    func aRejectedGroupLeavesTheColumnsOfATable() async throws {
        let server = try await TestServer([], dynamic: true)
        _ = await server.send("POST", "/tables/Old", #"{"id":"a","text":"t"}"#)
        let parts = [
            BatchPart("1", "patch", "tables/Old/a", #"{"x":1}"#, group: "g"),
            BatchPart("2", "patch", "tables/Old/a", #"{"x":2,"y":1}"#, group: "g"),
            BatchPart("3", "post", "tables/Old", #"{"id":"a"}"#, group: "g"),
        ]
        let rejected = await server.batch(parts)
        #expect(rejected.partStatuses == [424, 424, 409])
        let row = await server.send("GET", "/tables/Old/a").row
        #expect(row["x"] == nil && row["y"] == nil && row["text"] as? String == "t")
        let done = await server.batch(Array(parts[..<2]))
        #expect(done.partStatuses == [200, 200])
        #expect(done.partBody(1)["x"] as? Int == 2)
    }

    @Test("A later request of a group cannot change the type that an earlier one chose")
    func membersAgreeOnTypes() async throws {
        let server = try await TestServer([], dynamic: true)
        let answer = await server.batch([
            BatchPart("1", "post", "tables/Fresh", #"{"id":"a","x":1}"#, group: "g"),
            BatchPart("2", "patch", "tables/Fresh/a", #"{"x":"text"}"#, group: "g"),
        ])
        #expect(answer.partStatuses == [424, 400], "\(answer.text)")
        #expect(await server.send("GET", "/tables/Fresh").rows.isEmpty)
    }

    @Test("A large group of inserts creates its table")
    func aLargeGroupCreatesItsTableOnce() async throws {
        let server = try await TestServer([], dynamic: true)
        let answer = await server.batch(
            (0..<500).map {
                BatchPart("\($0)", "post", "tables/Fresh", #"{"id":"\#($0)","x":1}"#, group: "g")
            }
        )
        #expect(Set(answer.partStatuses) == [201])
        let count = await server.send("GET", "/tables/Fresh?$count=true&$top=0").row["count"]
        #expect(count as? Int == 500)
    }
}
