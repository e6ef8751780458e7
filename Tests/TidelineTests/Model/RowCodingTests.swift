// RowCodingTests: records to rows and back: every column type, defaults, and decoding failures.

import Foundation
import Testing
import Tideline

@Test("A value of each column type is unchanged after a round trip through a row")
func everyColumnTypeGoesToARowAndBack() throws {
    let record = Everything(id: "1")
    let row = try Row(record)
    #expect(row["text"] == .string("milk"))
    #expect(row["flag"] == .bool(true))
    #expect(row["int"] == .integer(-3))
    #expect(row["real"] == .number(0.1))
    #expect(row["price"] == .decimal(Decimal(string: "0.10") ?? 0))
    #expect(row["when"] == .date(Timestamp(microseconds: 1_700_000_000_123_000).date))
    #expect(row["day"] == .string("2026-11-20"))
    #expect(row["time"] == .string("07:14:00.000"))
    #expect(row["key"] == .string("6ba7b810-9dad-11d1-80b4-00c04fd430c8"))
    #expect(row["bytes"] == .data(Data([1, 2, 255])))
    #expect(row["link"] == .string("file:///a"))
    #expect(row["priority"] == .string("high"))
    #expect(row["level"] == .integer(2))
    #expect(row["color"] == .string("red"))
    #expect(row["place"] == .json(try JSON(#"{"city":"Gdańsk","tags":["a"]}"#)))
    #expect(row["list"] == .json(try JSON("[1,2]")))
    for name in row.names where name.hasPrefix("maybe") || name.hasSuffix("At") {
        #expect(row[name] == .some(.null), "\(name)")
    }
    #expect(row.count == 35)
    let back = try row.decode(Everything.self)
    #expect(try Row(back) == row)
    #expect(back == record)
}

@Test("Optional values are unchanged after a round trip through a row")
func optionalsGoToARowAndBack() throws {
    var record = Everything(id: "1")
    record.maybeText = "x"
    record.maybeFlag = false
    record.maybeInt = 1
    record.maybeSmall = 2
    record.maybeReal = 3.5
    record.maybePrice = 4
    record.maybeWhen = Timestamp("2026-11-20T20:32:22.404Z")?.date
    record.maybeDay = LocalDate("2024-02-29")
    record.maybeKey = UUID()
    record.maybePriority = .low
    record.maybePlace = Place(city: "", tags: [])
    record.createdAt = Timestamp("2026-11-20T20:32:22.404Z")?.date
    record.version = "1"
    record.deleted = true
    #expect(try Row(record).decode(Everything.self) == record)
}

@Test("Unknown columns and the order of columns do not affect decoding")
func membersInAnotherOrderDecodeTheSame() throws {
    let record = Everything(id: "1")
    var row = Row()
    for (name, value) in Array(try Row(record)).reversed() { row[name] = value }
    row["unknown"] = 1
    #expect(try row.decode(Everything.self) == record)
}

@Test("Dates are rounded to milliseconds") func datesAreRoundedToMilliseconds() throws {
    var item = TodoItem(text: "")
    item.updatedAt = Date(timeIntervalSince1970: 1.2346)
    #expect(try Row(item)["updatedAt"] == .date(Timestamp(microseconds: 1_235_000).date))
}

@Test("Missing and null columns decode to the zero value of their type")
func missingAndNullColumnsBecomeZero() throws {
    for row in [Row(["id": "1"]), Row(["id": "1", "text": nil, "complete": nil])] {
        let item = try row.decode(TodoItem.self)
        #expect(item.text.isEmpty)
        #expect(!item.complete)
        #expect(item.updatedAt == nil)
    }
    let row: Row = [
        "id": "1", "link": "x:", "priority": "low", "level": 1,
        "place": .json(try JSON(#"{"city":"","tags":[]}"#)),
    ]
    let record = try row.decode(Everything.self)
    #expect(record.int == 0 && record.real == 0 && record.price == 0 && record.bytes.isEmpty)
    #expect(record.when == Date(timeIntervalSince1970: 0))
    #expect(record.day.description == "1970-01-01" && record.time.description == "00:00:00.000")
    #expect(record.list.isEmpty)
}

@Test("Missing and null columns decode to the declared default")
func missingColumnsBecomeTheDeclaredDefault() throws {
    let declared = TableSchema(
        name: "TodoItem",
        columns: [
            ColumnDefinition("text", .string, nullable: false, default: "new"),
            ColumnDefinition("complete", .boolean, nullable: false, default: true),
        ]
    )
    let coder = try RecordCoder.model(for: TodoItem.self, declared: declared)
    let item = try coder.decode(Row(["id": "1", "complete": nil]))
    #expect(item.text == "new" && item.complete)
    #expect(coder.declares("updatedAt") && !coder.declares("version"))
}

@Test("A number decodes from any kind of number, and dates and data from text")
func numbersPassBetweenTheirKinds() throws {
    let row: Row = [
        "id": "1", "int": 4.0, "real": 3, "price": 0.1, "maybeInt": .decimal(12),
        "maybeReal": .decimal(Decimal(string: "0.5") ?? 0), "link": "x:", "priority": "low",
        "level": 1, "place": .json(try JSON(#"{"city":"","tags":[]}"#)),
        "when": "2026-11-20T20:32:22.404Z", "bytes": "AQI=",
    ]
    let record = try row.decode(Everything.self)
    #expect(record.int == 4 && record.real == 3 && record.maybeInt == 12)
    #expect(record.price == Decimal(string: "0.1"))
    #expect(record.maybeReal == 0.5)
    #expect(record.when == Timestamp("2026-11-20T20:32:22.404Z")?.date)
    #expect(record.bytes == Data([1, 2]))
}

@Test(
    "A decoding failure names the table, the row and the column, but no value",
    arguments: [
        ("text", 1), ("flag", "secret"), ("int", 1.5), ("int", "secret"), ("small", 300),
        ("big", -1),
        ("real", "secret"), ("price", "secret"), ("when", "secret"), ("day", "2026-02-30"),
        ("time", "24:00"), ("key", "secret"), ("bytes", "secret!"), ("priority", "secret"),
        ("level", 3), ("level", nil), ("place", .json(JSON(checked: #"{"city":7}"#))),
        ("list", "secret"), ("maybeInt", "secret"), ("maybeSmall", 99_999),
        ("maybePriority", "secret"),
        ("maybePlace", .json(JSON(checked: #"["secret"]"#))), ("version", 3), ("deleted", 2),
    ] as [(String, Value)]
)
func misfitsNameTableIdAndColumnButNoValue(_ column: String, _ value: Value) throws {
    var row = try Row(Everything(id: "row-17"))
    row[column] = value
    let error = #expect(throws: SyncError.self) { try row.decode(Everything.self) }
    #expect(error?.code == .rowDoesNotFit)
    let message = error?.message ?? ""
    #expect(message.contains("'Everything'") && message.contains("'row-17'"))
    #expect(message.contains("'\(column)'"), "\(message)")
    #expect(!message.contains("secret"))
    let failure = try #require(error?.cause as? DecodingFailure)
    #expect(failure.table == "Everything" && failure.itemID == "row-17" && failure.column == column)
}

@Test("Rows that do not decode are skipped or fail the page, as the caller chooses")
func misfitsAreSkippedOrFailThePage() throws {
    let coder = try RecordCoder.model(for: TodoItem.self)
    let rows: [Row] = [["id": "1"], ["id": "2", "text": 1], ["id": "3"]]
    #expect(try coder.decode(rows, onDecodingFailure: .skip).map(\.id) == ["1", "3"])
    #expect(throws: SyncError.self) { try coder.decode(rows, onDecodingFailure: .throw) }
}

@Test("A date with milliseconds is unchanged after a round trip through a row")
func datesComeBackEqual() throws {
    var dates = (0..<2000).map { Date(timeIntervalSince1970: 1_700_000_000 + Double($0) / 1000) }
    dates += [.distantPast, .distantFuture, Date(timeIntervalSince1970: -0.001)]
    for date in dates {
        var record = Everything(id: "1")
        record.when = date
        #expect(try Row(record).decode(Everything.self).when == date)
    }
}

@Test("A record with a value that is out of range is rejected")
func valuesOutOfRangeDoNotEnterARow() throws {
    var records = Array(repeating: Everything(id: "1"), count: 5)
    records[0].real = .nan
    records[1].big = .max
    records[2].when = .distantFuture.addingTimeInterval(1e12)
    records[3].price = .nan
    records[4].maybeReal = .infinity
    for (record, column) in zip(records, ["real", "big", "when", "price", "maybeReal"]) {
        let error = #expect(throws: SyncError.self) { try Row(record) }
        #expect(error?.code == .rowDoesNotFit)
        #expect(error?.message.contains("'\(column)'") == true, "\(error?.message ?? "")")
    }
}

/// A record with dates in a JSON column.
private struct Planned: SyncRecord, Equatable {
    struct Plan: Codable, Equatable {
        var start: Date
        var stops: [Date] = []
    }

    var id = "1"
    var when = Date(timeIntervalSince1970: 0)
    var plan: Plan
}

@Test("A date in a JSON column is rounded like a date in a column")
func nestedDatesAreThoseOfColumns() throws {
    var dates = (0..<100).map { Date(timeIntervalSince1970: 1_700_000_000 + Double($0) / 8192) }
    dates += [1_700_000_000.1239, -0.0006, 0.0004999, 1e11 + 0.5].map {
        Date(timeIntervalSince1970: $0)
    }
    dates += [.distantPast, .distantFuture]
    for date in dates {
        let record = Planned(when: date, plan: Planned.Plan(start: date, stops: [date]))
        let back = try Row(record).decode(Planned.self)
        #expect(back.plan.start == back.when, "\(date.timeIntervalSince1970)")
        #expect(back.plan.stops == [back.when])
        #expect(try Row(back) == Row(record))
    }
}

@Test(
    "A date in a JSON column that is out of range is rejected",
    arguments: [Double.nan, .infinity, -.infinity, 1e15, -1e15, 253_402_300_800]
)
func nestedDatesOutOfRangeDoNotEnterARow(seconds: Double) throws {
    let date = Date(timeIntervalSince1970: seconds)
    for plan in [Planned.Plan(start: date), Planned.Plan(start: .distantPast, stops: [date])] {
        let error = #expect(throws: SyncError.self) { try Row(Planned(plan: plan)) }
        #expect(error?.code == .rowDoesNotFit)
        #expect(error?.message.contains("'plan'") == true, "\(error?.message ?? "")")
    }
}

/// A record that encodes its columns in another order, without those that are nil.
private struct HandWritten: SyncRecord {
    var id: String
    var text: String
    var owner: String?

    init(id: String, text: String) {
        self.id = id
        self.text = text
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(text, forKey: .text)
        try container.encode(id, forKey: .id)
        if let owner { try container.encode(owner, forKey: .owner) }
    }
}

@Test("A hand-written encoding that omits a nil value gives a row with null")
func handWrittenEncodingGivesTheSameRow() throws {
    let row = try Row(HandWritten(id: "1", text: "x"))
    #expect(row == ["id": "1", "text": "x", "owner": nil])
}

/// A record that rejects the first placeholder, and declares only one of the columns after it.
private struct HalfDeclared: SyncRecord {
    var id: String
    var text: String
    var rest: Int

    init(id: String) {
        self.id = id
        text = "x"
        rest = 1
    }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        id = try container.decode(String.self, forKey: .id)
        guard !id.isEmpty else { throw CancellationError() }
        text = try container.decode(String.self, forKey: .text)
        rest = try container.decode(Int.self, forKey: .rest)
    }

    static var columns: [RecordColumn<HalfDeclared>] { [RecordColumn(\.text, "text", .string)] }
}

@Test("Encoding a property that is not a declared column throws an error")
func undeclaredColumnsAreNotLostInSilence() throws {
    let error = #expect(throws: SyncError.self) { try Row(HalfDeclared(id: "1")) }
    #expect(error?.code == .invalidModel)
    #expect(error?.message.contains("'rest'") == true)
}

@Test("Untyped rows are encoded and decoded unchanged") func plainRowsAreWhatTheyAre() throws {
    let coder = RecordCoder<Row>.untyped(table: TableSchema(name: "T", columns: []))
    let row: Row = ["id": "1", "text": "x"]
    #expect(try coder.encode(row) == row && coder.id(row) == "1")
    #expect(try coder.decode([row], onDecodingFailure: .throw) == [row])
    #expect(try coder.filter { $0["text"].contains("x") && $0["rank"] > 3 } != nil)
}
