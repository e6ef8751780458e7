// Models: the records of these tests.

import Foundation
import Tideline

enum Priority: String, Codable {
    case low
    case high
}

enum Level: Int, Codable {
    case one = 1
    case two = 2
}

struct Place: Codable, Hashable {
    var city: String
    var tags: [String]
}

/// A type that encodes itself as a string.
struct Color: Codable, Hashable {
    var name: String

    init(_ name: String) { self.name = name }

    init(from decoder: any Decoder) throws {
        name = try decoder.singleValueContainer().decode(String.self)
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(name)
    }
}

/// A record with a property of every column type, and an optional one of each.
struct Everything: SyncRecord, Equatable {
    let id: String
    var text = "milk"
    var flag = true
    var int = -3
    var small: Int8 = 7
    var big: UInt64 = 9
    var real = 0.1
    var single: Float = 1.5
    var price = Decimal(string: "0.10") ?? 0
    var when = Timestamp(microseconds: 1_700_000_000_123_000).date
    var day = LocalDate(year: 2026, month: 11, day: 20) ?? .zero
    var time = LocalTime(hour: 7, minute: 14) ?? .zero
    var key = UUID(uuidString: "6BA7B810-9DAD-11D1-80B4-00C04FD430C8") ?? UUID()
    var bytes = Data([1, 2, 255])
    var link = URL(fileURLWithPath: "/a")
    var priority = Priority.high
    var level = Level.two
    var color = Color("red")
    var place = Place(city: "Gdańsk", tags: ["a"])
    var list = [1, 2]
    var maybeText: String?
    var maybeFlag: Bool?
    var maybeInt: Int?
    var maybeSmall: Int16?
    var maybeReal: Double?
    var maybePrice: Decimal?
    var maybeWhen: Date?
    var maybeDay: LocalDate?
    var maybeKey: UUID?
    var maybePriority: Priority?
    var maybePlace: Place?
    var createdAt: Date?
    var updatedAt: Date?
    var version: String?
    var deleted = false
}

struct Renamed: SyncRecord {
    static let tableName = "things"

    var id: String
    var dueDate: Date?
    var title: String

    enum CodingKeys: String, CodingKey {
        case id
        case dueDate = "due"
        case title = "t"
    }
}

struct Chore: SyncRecord {
    var id = ""
    var text = ""
    var owner: String?
    var rank = 0
    var score: Double?
    var price = 0.0
    var complete = false
    var flag: Bool?
    var due: Date?
    var start = Date(timeIntervalSince1970: 0)
    var priority = Priority.low
    var key: UUID?
    var amount: Decimal?
    var computed: Int { rank * 2 }
}
