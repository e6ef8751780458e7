// Column types: JSON representation, storage, rules, defaults, and filters, in both generations.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServer
import TidelineServerCore
import TidelineServerSQLite
import TidelineTestKit

/// A type with JSON texts: the values that are accepted and stored, and those that are rejected.
private struct Kind: Sendable, CustomTestStringConvertible {
    var type: ColumnType
    var rules = ColumnRules()
    /// The text that is sent, and the text that is returned.
    var accepted: [(String, String)]
    var rejected: [String]
    /// The value of an absent member of a non-nullable column.
    var zero: String
    /// A filter on `c`, and how many of the accepted values it matches.
    var filters: [(String, Int)]

    var testDescription: String { "\(type.name) \(rules.pattern ?? "")" }
}

@Suite struct ColumnTests {
    private static let texts: [Kind] = [
        Kind(
            type: .string,
            accepted: [(#""""#, #""""#), (#""é😀\n""#, #""é😀\n""#), (#""2""#, #""2""#)],
            rejected: ["1", "true", "{}", "[]", #""\u0000""#, #""\ud800""#],
            zero: #""""#,
            filters: [("c eq '2'", 1), ("length(c) le 1", 2), ("c gt '1'", 2)]
        ),
        Kind(
            type: .string,
            rules: ColumnRules(maxLength: 3, pattern: "[a-z😀]+|"),
            accepted: [(#""abc""#, #""abc""#), (#""a😀b""#, #""a😀b""#), (#""""#, #""""#)],
            rejected: [#""abcd""#, #""aB""#, #""a1""#, #""ab ""#],
            zero: #""""#,
            filters: [("startswith(c,'a')", 2)]
        ),
        Kind(
            type: .guid,
            accepted: [
                (
                    #""0E98B4FF-0000-4000-8000-00000000000F""#,
                    #""0e98b4ff-0000-4000-8000-00000000000f""#
                )
            ],
            rejected: [#""x""#, #""""#, "1", #""{0E98B4FF-0000-4000-8000-00000000000F}""#],
            zero: #""""#,
            filters: [
                ("c eq guid'0e98b4ff-0000-4000-8000-00000000000F'", 1),
                ("c eq cast(0e98b4ff-0000-4000-8000-00000000000f,Edm.Guid)", 1),
            ]
        ),
        Kind(
            type: .enumeration(["Unrated", "G", "PG"]),
            accepted: [(#""PG""#, #""PG""#), (#""Unrated""#, #""Unrated""#), (#""G""#, #""G""#)],
            rejected: [#""g""#, #""""#, "1"],
            zero: #""Unrated""#,
            filters: [("c gt 'Unrated'", 2), ("c in ('G','PG')", 2), ("c le 'G'", 2)]
        ),
        Kind(
            type: .binary,
            rules: ColumnRules(maxLength: 4),
            accepted: [(#""""#, #""""#), (#""AAEC/w==""#, #""AAEC/w==""#)],
            rejected: [
                #""AAECAwQ=""#, #""é""#, #""A""#, "1", #""AQ=A""#, #""AQ===""#, #""====""#,
                #""A===""#, #""AQ""#, #""AA=AAAA=""#,
            ],
            zero: #""""#,
            filters: [("c eq binary'AAEC/w=='", 1)]
        ),
        Kind(
            type: .json,
            accepted: [
                (#"{"a": [1, 2.50]}"#, #"{"a":[1,2.50]}"#), ("5", "5"), (#""t""#, #""t""#),
                ("false", "false"), ("[]", "[]"),
            ],
            rejected: [#"{"a":1,"a":2}"#, "[1,]"],
            zero: "null",
            filters: [("c eq null", 1), ("c ne null", 5)]
        ),
    ]

    private static let threes = String(repeating: "3", count: 38)

    private static let numbers: [Kind] = [
        Kind(
            type: .integer,
            accepted: [
                ("9223372036854775807", "9223372036854775807"),
                ("-9223372036854775808", "-9223372036854775808"), ("1e2", "100"), ("2.0", "2"),
            ],
            rejected: ["1.5", "9223372036854775808", #""1""#, "true"],
            zero: "0",
            filters: [("c eq 100", 1), ("c gt 9223372036854775806", 1), ("c lt 3L", 2)]
        ),
        Kind(
            type: .integer,
            rules: ColumnRules(min: -5, max: 5),
            accepted: [("-5", "-5"), ("5", "5")],
            rejected: ["-6", "6"],
            zero: "0",
            filters: [("c div 2 eq -2", 1)]
        ),
        Kind(
            type: .number,
            rules: ColumnRules(max: 1e300),
            accepted: [
                ("1.50", "1.5"), ("-0.25", "-0.25"), ("3", "3"), ("1e300", "1e+300"),
                ("-9007199254740992", "-9007199254740992.0"),
            ],
            rejected: [
                "1e999", "1.1e300", #""1""#, "NaN", "9007199254740993", "-9007199254740993",
                "9223372036854775807", "123456789012345678901",
            ],
            zero: "0",
            filters: [("c eq 1.5", 1), ("c ge 1.5", 3), ("c add 0.25 eq 0", 1)]
        ),
        Kind(
            type: .decimal,
            rules: ColumnRules(min: .decimal(Decimal(string: "-0.5") ?? 0)),
            accepted: [
                ("12345678901234567890.10", "12345678901234567890.1"), ("-0.50", "-0.5"),
                ("1e2", "100"),
            ],
            rejected: [
                "-0.51", #""1""#, "1234567890123456789012345678901234567890123",
            ],
            zero: "0",
            filters: [("c eq 12345678901234567890.1M", 1), ("c lt 0", 1), ("c gt 99.9", 2)]
        ),
        Kind(
            type: .boolean,
            accepted: [("true", "true"), ("false", "false")],
            rejected: ["1", "0", #""true""#],
            zero: "false",
            filters: [("c", 1), ("not c", 2), ("c eq true", 1)]
        ),
    ]

    private static let times: [Kind] = [
        Kind(
            type: .dateTime,
            rules: ColumnRules(min: .date(Date(timeIntervalSince1970: 0))),
            accepted: [
                (#""2026-11-20T20:32:22.9999+01:00""#, #""2026-11-20T19:32:22.999Z""#),
                (#""1970-01-01T00:00:00Z""#, #""1970-01-01T00:00:00.000Z""#),
            ],
            rejected: [
                #""2026-11-20T20:32:22""#, #""2026-02-30T00:00:00Z""#, #""2026-11-20""#, "5",
                #""1969-12-31T23:59:59.999Z""#,
            ],
            zero: #""1970-01-01T00:00:00.000Z""#,
            filters: [
                ("c gt datetime'2026-01-01T00:00:00Z'", 1), ("year(c) eq 2026", 1),
                ("c eq cast(1970-01-01T00:00:00Z,Edm.DateTimeOffset)", 1),
            ]
        ),
        Kind(
            type: .date,
            rules: ColumnRules(max: "2030-12-31"),
            accepted: [(#""2024-02-29""#, #""2024-02-29""#), (#""2030-12-31""#, #""2030-12-31""#)],
            rejected: [#""2023-02-29""#, #""2031-01-01""#, #""2024-2-9""#, "1"],
            zero: #""""#,
            filters: [("c eq 2024-02-29", 1), ("c gt cast(2024-12-31,Edm.Date)", 1)]
        ),
        Kind(
            type: .time,
            rules: ColumnRules(min: "07:00:00.000", max: "20:00:00.000"),
            accepted: [
                (#""07:14""#, #""07:14:00.000""#), (#""19:59:59.9999""#, #""19:59:59.999""#),
            ],
            rejected: [#""24:00""#, #""06:59:59""#, #""20:00:00.001""#, "1"],
            zero: #""""#,
            filters: [("c ge 12:15:00", 1), ("c eq cast(07:14:00,Edm.TimeOfDay)", 1)]
        ),
    ]

    @Test(
        "Valid values of each column type are stored and filtered; invalid ones are rejected",
        arguments: texts + numbers + times,
        [true, false]
    )
    private func valuesRoundTrip(_ kind: Kind, _ isClassic: Bool) async throws {
        try await withTemporaryDirectory { directory in
            let column = ColumnDefinition("c", kind.type, rules: kind.rules)
            let table = TableDefinition("Kinds", columns: [column])
            let server = try await TestServer([table], path: directory + "/a.db")
            for (sent, _) in kind.accepted + [("null", "null")] {
                let created = await server.send("POST", "/tables/Kinds", "{\"C\":\(sent)}")
                #expect(created.status == 201, "\(sent): \(created.text)")
            }
            for sent in kind.rejected {
                let answer = await server.send(
                    "POST",
                    "/tables/Kinds",
                    "{\"c\":\(sent)}",
                    classic: isClassic
                )
                #expect(answer.status == 400, "\(sent): \(answer.text)")
            }
            await server.store.stop()
            let again = try await TestServer([table], path: directory + "/a.db")
            let order = "$orderby=updatedAt"
            let list = await again.send("GET", "/tables/Kinds?\(order)", classic: isClassic)
            for (_, stored) in kind.accepted + [("null", "null")] {
                #expect(list.text.contains("\"c\":\(stored),"), "\(stored): \(list.text)")
            }
            for (filter, count) in kind.filters {
                let target = "/tables/Kinds?$filter=\(filter)"
                let answer = await again.send("GET", target, classic: isClassic)
                #expect(answer.status == 200, "\(filter): \(answer.text)")
                #expect(answer.rows.count == count, "\(filter): \(answer.text)")
            }
            await again.store.stop()
        }
    }

    private static let stores = [false] + (PostgresCluster.reasonToSkip == nil ? [true] : [])

    @Test(
        "A non-nullable column without a value gets its type's zero value, which writes accept",
        arguments: texts + numbers + times,
        stores
    )
    private func absentMembersOfNonNullableColumns(_ kind: Kind, onPostgres: Bool) async throws {
        let column = ColumnDefinition("c", kind.type, nullable: false)
        let server = try await TestServer(
            [TableDefinition("Kinds", columns: [column])],
            onPostgres: onPostgres
        )
        let created = await server.send("POST", "/tables/Kinds", #"{"id":"a"}"#)
        #expect(created.text.contains("\"c\":\(kind.zero),"), "\(created.text)")
        let replaced = await server.send("PUT", "/tables/Kinds/a", "{}")
        #expect(replaced.text.contains("\"c\":\(kind.zero),"), "\(replaced.text)")
        let stored = await server.send("GET", "/tables/Kinds/a").text
        let json: HTTPFields = ["Content-Type": "application/json"]
        let patch: HTTPFields = ["Content-Type": "application/json-patch+json"]
        let steps = ["test", "replace"].map {
            #"{"op":"\#($0)","path":"/c","value":\#(kind.zero)}"#
        }
        for (method, body, headers) in [
            ("PUT", stored, json), ("PATCH", "{\"c\":\(kind.zero)}", json),
            ("PATCH", "[\(steps.joined(separator: ","))]", patch),
        ] {
            let answer = await server.send(method, "/tables/Kinds/a", body, headers: headers)
            #expect(answer.status == 200, "\(body): \(answer.text)")
            #expect(answer.text.contains("\"c\":\(kind.zero),"), "\(answer.text)")
        }
        for method in ["PUT", "PATCH"] {
            let null = await server.send(method, "/tables/Kinds/a", #"{"c":null}"#)
            // Null is the zero value of a document.
            let isAccepted = kind.type == .json
            #expect(null.status == (isAccepted ? 200 : 400), "\(null.text)")
            #expect(isAccepted || null.error.contains("'c'"), "\(null.text)")
        }
    }

    @Test("Column rules in the configuration apply to inserts")
    func theLongFormOfTheConfiguration() async throws {
        let text = #"""
            {"tables":{"T":{"columns":{
              "code":{"type":"string","nullable":false,"default":"AA","maxLength":4,"pattern":"^[A-Z]{2,4}$"},
              "price":{"type":"decimal","min":0.5,"max":99.95},
              "day":{"type":"date","min":"2020-01-01"},
              "at":{"type":"dateTime","max":"2030-01-01T00:00:00+01:00"},
              "size":{"type":"binary","maxLength":2}
            }}}}
            """#
        let configuration = try ServerConfiguration(json: Array(text.utf8))
        let server = try await TestServer(configuration.tables)
        for (body, status) in [
            ("{}", 201), (#"{"code":"ABCD"}"#, 201), (#"{"code":"ABCDE"}"#, 400),
            (#"{"code":"ab"}"#, 400), (#"{"code":null}"#, 400), (#"{"price":0.50}"#, 201),
            (#"{"price":0.49}"#, 400), (#"{"price":99.951}"#, 400), (#"{"price":null}"#, 201),
            (#"{"day":"2019-12-31"}"#, 400), (#"{"at":"2029-12-31T23:00:00Z"}"#, 201),
            (#"{"at":"2029-12-31T23:00:00.000001Z"}"#, 400), (#"{"size":"AAEC"}"#, 400),
        ] {
            let answer = await server.send("POST", "/tables/T", body)
            #expect(answer.status == status, "\(body): \(answer.text)")
        }
    }
}
