// Fixture: the rows for the facts, with exact or binary numbers.

import Foundation
import TidelineCore

enum Fixture {
    /// `pieces` integer, `price` decimal, `rev` text.
    static let exact = schema(pieces: .integer, price: .decimal, rev: .string)
    /// `pieces` and `price` number, `rev` binary.
    static let real = schema(pieces: .number, price: .number, rev: .binary)

    private static func schema(
        pieces: ColumnType,
        price: ColumnType,
        rev: ColumnType
    ) -> TableSchema {
        TableSchema(
            name: "parts",
            columns: [
                ColumnDefinition("label", .string),
                ColumnDefinition("pieces", pieces),
                ColumnDefinition("weight", .number),
                ColumnDefinition("price", price),
                ColumnDefinition("fragile", .boolean),
                ColumnDefinition("depot", .string),
                ColumnDefinition("sentAt", .dateTime),
                ColumnDefinition("note", .string),
                ColumnDefinition("rev", rev),
            ]
        )
    }

    static func rows(_ schema: TableSchema) -> [Row] {
        table.map { fields in
            var row = Row()
            row["id"] = fields[0]
            for (column, value) in zip(schema.columns, fields.dropFirst()) {
                row[column.name] = LiteralCoercion.value(value, as: ExpressionType(column.type))
            }
            return row
        }
    }

    private static let table: [[Value]] = [
        [
            "p1", "Copper wire", 3, 12.5, 4.99, false, "GDN", "2021-03-05T07:08:09.120Z", nil,
            "AAAAAAAAB9E=",
        ],
        [
            "p2", "Wine glasses", 24, 7.0, 89.90, true, "WAW", "2021-12-31T23:59:59.999Z",
            "top floor", "AAAAAAAAB9I=",
        ],
        [
            "p3", "O'Hara prints", 1, 0.4, 15.00, true, "GDN", "2022-01-01T00:00:00.000Z", "",
            "AAAAAAAAB9M=",
        ],
        [
            "p4", "100% cotton_bag", 10, 2.25, 6.50, false, "KRK", nil, "hold", "AAAAAAAAB9Q=",
        ],
        [
            "p5", nil, 0, nil, 0.00, nil, "WAW", "2020-02-29T12:30:00.000Z", nil,
            "AAAAAAAAB9U=",
        ],
        [
            "p6", "  wire brush ", 7, 1.5, 3.10, false, "KRK", "2022-06-15T18:45:30.500Z",
            "back\\slash", "AAAAAAAAB9Y=",
        ],
        [
            "p7", "Zebra mug", 5, -1.5, 12.00, true, "LDZ", "2022-06-15T18:45:30.501Z", "a?b",
            "AAAAAAAAB9c=",
        ],
        [
            "p8", "zebra mug", 6, 3.5, 12.34, false, "LDZ", "1969-07-20T20:17:40.000Z", "x",
            "AAAAAAAAB9g=",
        ],
    ]
}
