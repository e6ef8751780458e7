// SchemaDocument: the same bytes for the same tables, readable by the other side, and differences in words.

import Foundation
import Testing
import TidelineCore

@Suite struct SchemaDocumentTests {
    private static func table(
        _ columns: [ColumnDefinition],
        named name: String = "Job",
        rules: TableRules = TableRules(),
        aliases: [String: String] = [:],
        references: [String: SchemaDocument.Reference] = [:],
        owner: String? = nil
    ) -> SchemaDocument.Table {
        var schema = TableSchema(name: name, columns: columns)
        schema.rules = rules
        schema.aliases = aliases
        return SchemaDocument.Table(schema, references: references, owner: owner)
    }

    private static let job = table(
        [
            ColumnDefinition("title", .string, nullable: false, default: "a \"b\""),
            ColumnDefinition("minutes", .integer, rules: ColumnRules(min: 0, max: 1440)),
            ColumnDefinition("price", .decimal, default: .decimal(Decimal(string: "1.50") ?? 0)),
            ColumnDefinition("rate", .number, default: .number(0.5)),
            ColumnDefinition("open", .boolean, nullable: false, default: .bool(true)),
            ColumnDefinition(
                "start",
                .dateTime,
                rules: ColumnRules(min: .date(Date(timeIntervalSince1970: 0)))
            ),
            ColumnDefinition("day", .date, default: "2026-11-20"),
            ColumnDefinition("photo", .binary, default: .data(Data([1, 2]))),
            ColumnDefinition("extra", .json, default: .json(JSON(checked: "{\"a\":1}"))),
            ColumnDefinition("status", .enumeration(["open", "done"]), default: "open"),
            ColumnDefinition(
                "code",
                .string,
                rules: ColumnRules(maxLength: 9, pattern: "[a-z]+", required: true)
            ),
        ],
        rules: TableRules(
            unique: [["title", "day"]],
            comparisons: [ColumnComparison("title", .different, "code")]
        ),
        aliases: ["name": "title"],
        references: ["title": SchemaDocument.Reference(table: "Customer", onDelete: "cascade")],
        owner: "userID"
    )

    @Test("A written document is read again, with and without line breaks")
    func roundTrip() throws {
        let document = SchemaDocument(
            [Self.job, Self.table([], named: "A")],
            parts: [.columns, .rules]
        )
        #expect(document.tables.map(\.name) == ["A", "Job"])
        #expect(try SchemaDocument(document.bytes()) == document)
        #expect(try SchemaDocument(Array(document.json.utf8)) == document)
        #expect(document.json.hasSuffix("}\n"))
        // A column has a line of its own.
        #expect(document.json.contains("\n        \"day\": {\"type\":\"date\""))
    }

    @Test("The fingerprint depends on the contract, and not on its order")
    func fingerprints() {
        let document = SchemaDocument([
            Self.table([ColumnDefinition("b", .string), ColumnDefinition("a", .integer)])
        ])
        let other = SchemaDocument([
            Self.table([ColumnDefinition("a", .integer), ColumnDefinition("b", .string)])
        ])
        #expect(document.fingerprint == other.fingerprint)
        #expect(document.bytes() != other.bytes())
        let text =
            "{\"columns\":{\"a\":{\"type\":\"integer\",\"nullable\":true},"
            + "\"b\":{\"type\":\"string\",\"nullable\":true}}}"
        let hash = SHA256.hash(text.utf8).map {
            String($0 >> 4, radix: 16) + String($0 & 15, radix: 16)
        }
        #expect(document.tables[0].fingerprint == hash.joined())
        var prints: Set<String> = [document.fingerprint]
        for change in [
            Self.table(document.tables[0].schema.columns, named: "Jobs"),
            Self.table(document.tables[0].schema.columns, owner: "a"),
            Self.table(document.tables[0].schema.columns, aliases: ["c": "a"]),
            Self.table(document.tables[0].schema.columns, rules: TableRules(unique: [["a"]])),
            Self.table(
                document.tables[0].schema.columns,
                references: ["b": SchemaDocument.Reference(table: "A", onDelete: "none")]
            ),
            Self.table([ColumnDefinition("b", .string), ColumnDefinition("a", .number)]),
        ] {
            prints.insert(SchemaDocument([change]).fingerprint)
        }
        #expect(prints.count == 7)
    }

    @Test(
        "A text that is not a document is rejected, and unknown members are ignored",
        arguments: [
            ("", false), ("{}", false), (#"{"format":2,"tables":{}}"#, false),
            (#"{"format":1,"tables":[]}"#, false), (#"{"format":1,"tables":{}} x"#, false),
            (#"{"format":1,"tables":{"A":{"columns":{"a":{"type":"new"}}}}}"#, false),
            (#"{"format":1,"tables":{"A":{"columns":{"a":{"type":"date","default":1}}}}}"#, false),
            (#"{"format":1,"x":[{}],"tables":{"A":{"columns":{},"y":1}},"parts":["z"]}"#, true),
        ]
    )
    func reading(_ text: String, _ isDocument: Bool) {
        #expect(((try? SchemaDocument(Array(text.utf8))) != nil) == isDocument)
    }

    private func differences(
        _ app: [ColumnDefinition],
        _ server: [ColumnDefinition],
        aliases: [String: String] = [:]
    ) -> [String] {
        SchemaDocument([Self.table(app)], parts: [.columns])
            .differences(from: SchemaDocument([Self.table(server, aliases: aliases)]))
            .map(\.description)
    }

    @Test("An app that matches the server has no differences")
    func fits() {
        let differences = differences(
            [
                ColumnDefinition("Title", .string, nullable: false),
                ColumnDefinition("day", .string),
                ColumnDefinition("status", .string), ColumnDefinition("old", .integer),
            ],
            [
                ColumnDefinition("title", .string), ColumnDefinition("day", .date),
                ColumnDefinition("status", .enumeration(["a"])), ColumnDefinition("new", .integer),
                ColumnDefinition("more", .json, nullable: false),
            ],
            aliases: ["old": "new"]
        )
        #expect(differences == [])
    }

    @Test("Each difference is a sentence with its table and column")
    func differs() {
        let found = differences(
            [
                ColumnDefinition("gone", .string), ColumnDefinition("count", .integer),
                ColumnDefinition("note", .string),
            ],
            [
                ColumnDefinition("count", .number),
                ColumnDefinition("note", .string, nullable: false),
                ColumnDefinition("code", .string, rules: ColumnRules(required: true)),
            ]
        )
        #expect(
            found == [
                "Job.gone: the server's table has no such column",
                "Job.count: the app has the type integer, the server number",
                "Job.note: the app may send null, which the server rejects. Make the property not "
                    + "optional, or the column nullable",
                "Job.code: the server requires a value, and the app has no such property",
            ]
        )
        let none = SchemaDocument([Self.table([])]).differences(
            from: SchemaDocument([SchemaDocument.Table]())
        )
        #expect(none.map(\.table) == ["Job"] && none[0].column == nil)
    }

    @Test(
        "Rules and references may use former names of columns and another letter case"
    )
    func formerNames() {
        func job(_ column: String, _ parent: String, aliases: [String: String]) -> SchemaDocument {
            SchemaDocument([
                Self.table(
                    [ColumnDefinition(column, .string), ColumnDefinition("end", .string)],
                    rules: TableRules(
                        unique: [[column]],
                        comparisons: [ColumnComparison(column, .different, "end")]
                    ),
                    aliases: aliases,
                    references: [
                        column: SchemaDocument.Reference(table: parent, onDelete: "cascade")
                    ]
                ),
                Self.table([], named: "Customer"),
            ])
        }
        let server = job("customerID", "Customer", aliases: ["client": "customerID"])
        for name in ["customerID", "CustomerId", "client"] {
            let app = job(name, "customer", aliases: [:])
            #expect(app.differences(from: server) == [])
        }
        #expect(job("other", "customer", aliases: [:]).differences(from: server).count == 7)
    }

    @Test("Rules and references are compared if both documents state them")
    func rules() {
        var other = Self.job
        other.schema.columns[1].rules.max = 10
        other.schema.rules.unique = []
        other.schema.rules.comparisons = []
        other.references = [:]
        let parent = Self.table([], named: "Customer")
        let all = SchemaDocument([Self.job]).differences(from: SchemaDocument([other, parent]))
        #expect(
            all.map(\.description) == [
                "Job.minutes: app and server have different rules",
                "Job: only one side has the rule unique (day, title)",
                "Job: only one side has the rule title != code",
                "Job.title: app and server have different references",
            ]
        )
        // The caller may not read the parent's table, so the server names neither it nor the reference.
        let hidden = SchemaDocument([Self.job]).differences(from: SchemaDocument([other]))
        #expect(hidden == all.dropLast())
        let columns = SchemaDocument([Self.job], parts: [.columns])
        #expect(columns.differences(from: SchemaDocument([other])).isEmpty)
    }
}
