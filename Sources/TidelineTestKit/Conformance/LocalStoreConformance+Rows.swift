// LocalStoreConformance+Rows: checks for storing and reading rows.

import Foundation
import Tideline
import TidelineCore

extension LocalStoreConformance {
    static let rowChecks: [Check] = [
        Check("a row is read with the type of every column") { probe in
            let row = Sample.row("1")
            try await probe.put([row])
            let found = try await probe.row("1")
            try probe.expect(found == row, "\(row) was read as \(String(describing: found))")
            let listed = try await probe.rows()
            try probe.expect(listed == [row], "in a list it was read as \(listed)")
        },
        Check("boundary values are read unchanged") { probe in
            for (column, value) in edges {
                try await probe.put([Sample.row("1", column, value)])
                let found = try await probe.row("1")?[column]
                try probe.expect(
                    found == value,
                    "\(value) in '\(column)' was read as \(String(describing: found))"
                )
            }
        },
        Check("a column without a value is null") { probe in
            try await probe.put([["id": "1"]])
            let row = try await probe.row("1")
            for column in Sample.columns {
                try probe.expect(
                    row?[column.name] == .null,
                    "'\(column.name)' is \(String(describing: row?[column.name]))"
                )
            }
            for name in ["createdAt", "updatedAt", "version"] {
                try probe.expect(row?[name] == .null, "'\(name)' is not null")
            }
        },
        Check("columns that the schema does not have are kept") { probe in
            var row = Sample.row("1")
            row["new"] = 7
            row["newer"] = .json(JSON(checked: #"{"a":1}"#))
            row["newest"] = "text"
            try await probe.put([row])
            let found = try await probe.row("1")
            try probe.expect(found == row, "they were read as \(String(describing: found))")
        },
        Check("a put replaces the whole row") { probe in
            var row = Sample.row("1")
            row["new"] = 7
            try await probe.put([row])
            try await probe.put([Sample.row("1", "text", "bread")])
            let found = try await probe.row("1")
            try probe.expect(found?["text"] == "bread", "the new value is missing")
            try probe.expect(found?["whole"] == .null, "the old value of a column remains")
            try probe.expect(found?["new"] == nil, "the old value of an unknown column remains")
            try probe.expect(try await probe.rows().count == 1, "there are two rows")
        },
        Check("an appended row gets a new key, even if it has one") { probe in
            try await probe.store.open(tables: tables + SystemTables.schemas)
            let keys = try await probe.store.write { writer in
                let name = Sample.local.name
                let first = try writer.append(["a": "x"], in: name)
                let second = try writer.append(["id": .integer(first), "a": "y"], in: name)
                try writer.delete(ids: [.integer(second)], in: name)
                return [first, second, try writer.append(["a": "z"], in: name)]
            }
            try probe.expect(keys[0] < keys[1] && keys[1] < keys[2], "the keys are \(keys)")
            let found = try await probe.store.read { reader in
                try keys.map { try reader.row(id: .integer($0), in: Sample.local.name)?["a"] }
            }
            try probe.expect(found == ["x", nil, "z"], "the rows are \(found)")
        },
        Check("rows of one put may have different columns, and the last one wins") { probe in
            try await probe.put([
                Sample.row("1", "text", "a"), Sample.row("2", "whole", 2),
                Sample.row("1", "real", 0.5), ["id": "3", "new": "x"],
            ])
            let row = try await probe.row("1")
            try probe.expect(row?["real"] == 0.5, "the last row of an id is missing")
            try probe.expect(row?["text"] == .null, "the first row of an id remains")
            try probe.expect(try await probe.row("2")?["whole"] == 2, "a second shape is lost")
            try probe.expect(try await probe.row("3")?["new"] == "x", "a third shape is lost")
        },
        Check("ids are compared by their bytes") { probe in
            let ids = ["caf\u{e9}", "cafe\u{301}", "CAF\u{c9}", "cafe", " cafe"]
            try await probe.put(ids.map { Sample.row($0, "text", .string($0)) })
            for id in ids {
                let text = try await probe.row(id)?["text"]
                try probe.expect(text == .string(id), "'\(id)' is the id of another row")
            }
            let gone = try await probe.store.write {
                try $0.delete(ids: [.string(ids[1])], in: Sample.name)
            }
            try probe.expect(gone == 1, "a delete removed \(gone) rows")
            try probe.expect(try await probe.row(ids[0]) != nil, "a delete removed another row")
            try probe.expect(try await probe.row(ids[1]) == nil, "a deleted row still exists")
        },
        Check("a missing row is nil") { probe in
            try await probe.put([Sample.row("1")])
            try probe.expect(try await probe.row("2") == nil, "a row that was never stored exists")
            try probe.expect(try await probe.row("") == nil, "a row without an id exists")
        },
        Check("a delete returns the number of removed rows") { probe in
            try await probe.put([["id": "1"], ["id": "2"], ["id": "3"]])
            let counts = try await probe.store.write { writer in
                [
                    try writer.delete(ids: ["1", "9"], in: Sample.name),
                    try writer.delete(ids: ["1"], in: Sample.name),
                    try writer.delete(ids: [], in: Sample.name),
                    try writer.delete(ids: ["2", "3", "2"], in: Sample.name),
                ]
            }
            try probe.expect(counts == [1, 0, 0, 2], "the counts are \(counts)")
            try probe.expect(try await probe.rows().isEmpty, "rows are left")
        },
        Check("a table without system columns can have an integer key") { probe in
            try await probe.put(
                [["id": 10, "a": "ten"], ["id": 9, "a": "nine"], ["id": 10, "a": "again"]],
                in: Sample.local.name
            )
            let (row, rows) = try await probe.store.read { reader in
                (
                    try reader.row(id: 10, in: Sample.local.name),
                    try reader.rows(TableQuery(), in: Sample.local.name)
                )
            }
            try probe.expect(row == ["id": 10, "a": "again"], "it is \(String(describing: row))")
            try probe.expect(rows.compactMap { $0["id"] } == [9, 10], "the order is \(rows)")
        },
        Check("a table that was not opened is an error") { probe in
            let reads = await probe.throwsError {
                _ = try await probe.store.read { try $0.rows(TableQuery(), in: "Nowhere") }
            }
            let writes = await probe.throwsError {
                try await probe.store.write { try $0.put([["id": "1"]], in: "Nowhere") }
            }
            try probe.expect(reads && writes, "the table can be used")
        },
    ]

    /// Values that a store might change by mistake, each with the column for it.
    private static let edges: [(String, Value)] =
        [
            ("text", ""), ("text", "a\u{0}b"), ("text", "e\u{301}"), ("text", "👩‍👩‍👧\r\n'\"\\"),
            ("text", .string(String(repeating: "x", count: 100_000))),
            ("whole", .integer(.max)), ("whole", .integer(.min)), ("whole", 0),
            ("real", .number(.greatestFiniteMagnitude)), ("real", .number(.leastNonzeroMagnitude)),
            ("real", 3.0), ("real", 0.1), ("flag", false), ("bytes", .data(Data())),
            ("document", .json(JSON(checked: "null"))), ("document", .json(JSON(checked: "7"))),
            ("level", "unheard of"), ("exact", .decimal(0)),
        ] + dates + decimals

    private static let dates: [(String, Value)] = [
        -62_135_596_800.0, -0.001, 0, 0.001, 253_402_300_799.999,
    ].map { ("instant", .date(Date(timeIntervalSince1970: $0))) }

    private static let decimals: [(String, Value)] = [
        "0.1", "-0.001", "12345678901234567890123456789012345678", "99999999999999.99",
    ].compactMap { Decimal(string: $0) }.map { ("exact", .decimal($0)) }
}
