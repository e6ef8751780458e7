// EveryColumnTypeTests: both databases store the values of each column type, and the documents name each type.

import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore
import TidelineTestKit

@Suite struct EveryColumnTypeTests {
    private static let types = ColumnType.simple + [.enumeration(["G", "PG"])]

    private static let backends = PostgresCluster.reasonToSkip == nil ? [false, true] : [false]

    /// A value as it is sent and as it is returned, and values that are rejected.
    private struct Sample {
        var sent: String
        var stored: String
        var rejected: [String]

        init(_ sent: String, _ stored: String? = nil, rejected: String...) {
            self.sent = sent
            self.stored = stored ?? sent
            self.rejected = rejected
        }
    }

    /// Returns the sample of a type; a new type also has to be added to `ColumnType.simple`.
    private static func sample(of type: ColumnType) -> Sample {
        switch type {
        case .string: Sample(#""a\u0001😀""#, rejected: "1", #""\u0000""#)
        case .integer: Sample("9223372036854775807", rejected: #""1""#)
        case .number: Sample("1.50", "1.5", rejected: "1e999")
        case .decimal:
            Sample("12345678901234567890.10", "12345678901234567890.1", rejected: #""1""#)
        case .boolean: Sample("true", rejected: "1")
        case .dateTime:
            Sample(
                #""2026-11-20T20:32:22.9999+01:00""#,
                #""2026-11-20T19:32:22.999Z""#,
                rejected: #""2026-11-20T20:32:22""#
            )
        case .date: Sample(#""2024-02-29""#, rejected: #""2023-02-29""#)
        case .time: Sample(#""07:14""#, #""07:14:00.000""#, rejected: #""24:00""#)
        case .guid:
            Sample(
                #""0E98B4FF-0000-4000-8000-00000000000F""#,
                #""0e98b4ff-0000-4000-8000-00000000000f""#,
                rejected: #""x""#
            )
        case .binary: Sample(#""AAEC""#, rejected: #""é""#)
        case .json: Sample(#"{"a": [1, 2.50]}"#, #"{"a":[1,2.50]}"#, rejected: "[1,]")
        case .enumeration: Sample(#""PG""#, rejected: #""R""#)
        }
    }

    @Test("A value of each type round-trips through the database", arguments: types, backends)
    func roundTrips(type: ColumnType, onPostgres: Bool) async throws {
        let sample = Self.sample(of: type)
        let table = TableDefinition("Kinds", columns: [ColumnDefinition("c", type)])
        let server = try await TestServer([table], onPostgres: onPostgres)
        let body = #"{"id":"a","c":\#(sample.sent)}"#
        #expect(await server.send("POST", "/tables/Kinds", body).status == 201)
        #expect(await server.send("POST", "/tables/Kinds", #"{"id":"b","c":null}"#).status == 201)
        let row = await server.send("GET", "/tables/Kinds/a").text
        #expect(row.contains(#""c":\#(sample.stored),"#), "\(row)")
        let empty = await server.send("GET", "/tables/Kinds/b").text
        #expect(empty.contains(#""c":null,"#), "\(empty)")
        for wrong in sample.rejected {
            let answer = await server.send("POST", "/tables/Kinds", #"{"c":\#(wrong)}"#)
            #expect(answer.status == 400, "\(wrong)")
            #expect(type == .json || answer.error.contains("'c'"), "\(answer.error)")
        }
    }

    @Test("A list that is ordered by a column of each type is paged", arguments: types, backends)
    func isOrdered(type: ColumnType, onPostgres: Bool) async throws {
        let table = TableDefinition("Kinds", columns: [ColumnDefinition("c", type)])
        let server = try await TestServer([table], onPostgres: onPostgres)
        let value = Self.sample(of: type).sent
        for body in [#"{"id":"a","c":\#(value)}"#, #"{"id":"b","c":\#(value)}"#, #"{"id":"c"}"#] {
            #expect(await server.send("POST", "/tables/Kinds", body).status == 201)
        }
        let fields: HTTPFields = ["Prefer": "maxpagesize=1"]
        var target = "/tables/Kinds?$orderby=c desc"
        guard type != .json else {
            #expect(await server.send("GET", target, headers: fields).status == 400)
            return
        }
        var found: [String] = []
        for _ in 0..<3 {
            let page = await server.send("GET", target, headers: fields)
            try #require(page.status == 200, "\(page.text)")
            found += page.ids
            guard let next = page.row["nextLink"] as? String else { break }
            target = next.contains("/tables/") ? next : "/tables/Kinds?\(next)"
        }
        #expect(found == ["a", "b", "c"])
    }

    @Test("Every document with a table of the column types lists each type")
    func isDocumented() throws {
        func cells(_ path: String) throws -> Set<Substring> {
            let lines = try ProjectFile.text(path).split(separator: "\n")
            let rows = lines.filter { $0.hasPrefix("| ") }
            return Set(rows.flatMap { $0.split { "|`, ".contains($0) } })
        }
        let protocolCells = try cells("docs/protocol.md")
        let schemaCells = try cells("docs/database-schema.md")
        let articleCells = try cells("Sources/Tideline/Tideline.docc/DesigningTables.md")
        for type in Self.types {
            #expect(protocolCells.contains(type.name[...]), "protocol.md: \(type.name)")
            #expect(schemaCells.contains(type.name[...]), "database-schema.md: \(type.name)")
            #expect(articleCells.contains(type.name[...]), "DesigningTables.md: \(type.name)")
        }
    }

    @Test("The conformance checks of the stores have a column of each type")
    func conformanceIsComplete() {
        let names = Set(Self.types.map(\.name))
        #expect(names.count == Self.types.count)
        #expect(TableStoreConformance.columnTypes == names)
    }
}
