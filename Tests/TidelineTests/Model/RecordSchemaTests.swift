// RecordSchemaTests: the columns that the probe finds in a model, and the models that it rejects.

import Foundation
import Testing
import Tideline

@Test("A model defines its table, columns and system properties")
func contractModelGivesItsColumns() throws {
    let schema = try RecordSchema.of(TodoItem.self)
    #expect(
        schema.table
            == TableSchema(
                name: "TodoItem",
                columns: [
                    ColumnDefinition("text", .string, nullable: false),
                    ColumnDefinition("complete", .boolean, nullable: false),
                ]
            )
    )
    #expect(schema.systemProperties == ["updatedAt"])
    #expect(try RecordSchema.of(TodoItem.self) === schema)
}

@Test("Each property type has its column type") func everyTypeHasItsColumnType() throws {
    let schema = try RecordSchema.of(Everything.self)
    let types = Dictionary(
        uniqueKeysWithValues: schema.table.columns.map {
            ($0.name, $0.type.name + ($0.isNullable ? "?" : ""))
        }
    )
    #expect(
        types == [
            "text": "string", "flag": "boolean", "int": "integer", "small": "integer",
            "big": "integer", "real": "number", "single": "number", "price": "decimal",
            "when": "dateTime", "day": "date", "time": "time", "key": "guid", "bytes": "binary",
            "link": "string", "priority": "string", "level": "integer", "color": "string",
            "place": "json", "list": "json", "maybeText": "string?", "maybeFlag": "boolean?",
            "maybeInt": "integer?", "maybeSmall": "integer?", "maybeReal": "number?",
            "maybePrice": "decimal?", "maybeWhen": "dateTime?", "maybeDay": "date?",
            "maybeKey": "guid?", "maybePriority": "string?", "maybePlace": "json?",
        ]
    )
    #expect(schema.systemProperties == ["createdAt", "updatedAt", "version", "deleted"])
}

@Test("Coding keys name the columns") func codingKeysNameTheColumns() throws {
    let schema = try RecordSchema.of(Renamed.self)
    #expect(schema.table.name == "things")
    #expect(schema.table.columns.map(\.name) == ["due", "t"])
    #expect(try schema.column(for: \Renamed.dueDate) == "due")
    #expect(try schema.column(for: \Renamed.title) == "t")
    #expect(try schema.column(for: \Renamed.id) == "id")
}

@Test("Nested and generic models resolve their key paths")
func nestedAndGenericModelsHaveKeyPaths() throws {
    struct Inner: SyncRecord {
        var id: String
        var text: String
    }
    #expect(try RecordSchema.of(Inner.self).column(for: \Inner.text) == "text")
    #expect(Inner.tableName == "Inner")
    #expect(try RecordSchema.of(Box<Int>.self).column(for: \Box<Int>.content) == "content")
}

struct Box<Content: Codable & Sendable>: SyncRecord {
    var id: String
    var content: Content
}

@Test(
    "A key path that does not name a column is rejected with the reason",
    arguments: [
        (\Chore.computed as PropertyPath<Chore>, "computed"),
        (\Chore.owner?.count as PropertyPath<Chore>, "refers to a part of a value"),
        (\Chore.self as PropertyPath<Chore>, "the whole record"),
    ]
)
func otherKeyPathsAreRejectedByName(_ path: PropertyPath<Chore>, _ reason: String) {
    let error = #expect(throws: SyncError.self) {
        try RecordSchema.of(Chore.self).column(for: path)
    }
    #expect(error?.code == .unsupportedQuery)
    #expect(error?.message.contains(reason) == true)
}

private struct Reserved: SyncRecord {
    var id: String
    // swift-format-ignore: NoLeadingUnderscores, AlwaysUseLowerCamelCase
    var __hidden: Int
}

private struct WithoutID: SyncRecord {
    var id: String { text }
    var text: String
}

private struct WrongSystemType: SyncRecord {
    var id: String
    var updatedAt: String?
}

private struct SameNames: SyncRecord {
    var id: String
    var text: String
    // swift-format-ignore: AlwaysUseLowerCamelCase
    var Text: String
}

enum Shape: Codable, Equatable {
    case named(String)
    case round
}

private struct NoPlaceholder: SyncRecord {
    var id: String
    var shape: Shape
}

private struct Validating: SyncRecord {
    var id: String
    var text: String

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        id = try container.decode(String.self, forKey: .id)
        text = try container.decode(String.self, forKey: .text)
        guard !text.isEmpty else { throw CancellationError() }
    }
}

@Test(
    "An invalid model is rejected with a message that says what to change",
    arguments: [
        (Reserved.self as any SyncRecord.Type, "reserved"),
        (WithoutID.self, "no column 'id'"),
        (WrongSystemType.self, "system column of type dateTime"),
        (SameNames.self, "two columns"),
        (NoPlaceholder.self, "declare 'static var columns'"),
        (Validating.self, "after property 'text'"),
    ]
)
func invalidModelsSayWhatToChange(_ type: any SyncRecord.Type, _ remedy: String) {
    let error = #expect(throws: SyncError.self) { try RecordSchema.of(type) }
    #expect(error?.code == .invalidModel)
    #expect(error?.message.contains(remedy) == true, "\(error?.message ?? "")")
}

struct Declared: SyncRecord, Equatable {
    var id: String
    var rank: Int
    var shape: Shape

    static var columns: [RecordColumn<Declared>] {
        [
            RecordColumn(\.rank, "rank", .integer, nullable: false, default: 5),
            RecordColumn(\.shape, "shape", .json, nullable: false),
        ]
    }
}

@Test("Declared columns replace the columns that are found in a model")
func declaredColumnsReplaceFoundOnes() throws {
    let schema = try RecordSchema.of(Declared.self)
    #expect(schema.table.columns == Declared.columns.map(\.definition))
    #expect(try schema.column(for: \Declared.shape) == "shape")
    let record = Declared(id: "1", rank: 2, shape: .named("x"))
    #expect(try Row(record).decode(Declared.self) == record)
    var row = try Row(record)
    row["rank"] = nil
    #expect(try row.decode(Declared.self).rank == 5)
}
