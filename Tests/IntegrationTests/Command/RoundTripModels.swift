// Models of the tables of a Tideline server, written by 'tideline models --swift'.
// Change the server's configuration and write them again instead of editing this file.
//
// Schema 1c1689c8ce3ecb849f52b3bf7327537ae6c256a2b6a2728558574ff0b3482cf2

import Foundation
import Tideline

/// A row of the table 'Port'.
struct Port: SyncRecord {
    var id = UUID().uuidString.lowercased()
    var name: String = ""
    var createdAt: Date?
    var updatedAt: Date?

    static let rules: [Rule<Port>] = [
        .required(\.name),
        .maxLength(\.name, 40),
        .pattern(\.name, "[^<]*"),
    ]
}

/// A row of the table 'Ship'.
struct Ship: SyncRecord {
    enum State: String, Codable, Sendable, CaseIterable {
        case open = "open"
        case inWork = "in work"
        case `class` = "class"
        case empty = ""
    }

    enum Old: String, Codable, Sendable, CaseIterable {
        case a = "a"
        case b = "b"
    }

    enum Kind: String, Codable, Sendable, CaseIterable {
        case x = "x"
        case y = "y"
    }

    var id = UUID().uuidString.lowercased()
    var title: String = "a \"b\" \\(c)"
    var note: String?
    var remark: String? = "none"
    var crew: Int = 0
    var berths: Int? = 4
    var draft: Decimal? = Decimal(string: "1.5") ?? 0
    var speed: Double = 2.0
    var isAfloat: Bool = true
    var built: LocalDate?
    var sold: LocalDate = LocalDate(Date(timeIntervalSince1970: 1795132800.0), in: .gmt)
    var watch: LocalTime = LocalTime("00:00:00.000") ?? .midnight
    var bell: LocalTime? = LocalTime("12:30:00.000") ?? .midnight
    var seen: Date?
    var due: Date = Date(timeIntervalSince1970: 0.0)
    var tag: UUID = UUID(uuidString: "00000000-0000-0000-0000-000000000000") ?? UUID()
    var key: UUID? = UUID(uuidString: "00112233-4455-6677-8899-aabbccddeeff") ?? UUID()
    var photo: Data = Data()
    var scan: Data? = Data(base64Encoded: "AQI=") ?? Data()
    var extra: JSONValue = JSONValue.null
    var tags: JSONValue?
    var state: State = State.inWork
    var old: Old?
    var kind: Kind? = Kind.y
    var next: String?
    var portID: String?
    var selfValue: String?
    var createdAt: Date?
    var updatedAt: Date?

    static var columns: [RecordColumn<Ship>] {
        [
            RecordColumn(\.extra, "extra", .json, nullable: false),
            RecordColumn(\.tags, "tags", .json, nullable: true),
        ]
    }

    static let references = [
        Reference(\Ship.next, to: Ship.self, onDelete: .cascade),
        Reference(\Ship.portID, to: Port.self, onDelete: .setNull),
    ]

    static let rules: [Rule<Ship>] = [
        .min(\.crew, 0),
        .max(\.crew, 50),
        .min(\.draft, Decimal(string: "0.25") ?? 0),
        .unique(\.title, \.sold),
        .compare(\.seen, .lessOrEqual, \.due),
        .compare(\.note, .different, \.title),
    ]

    enum CodingKeys: String, CodingKey {
        case id
        case title
        case note
        case remark
        case crew
        case berths
        case draft
        case speed
        case isAfloat
        case built
        case sold
        case watch
        case bell
        case seen
        case due
        case tag
        case key
        case photo
        case scan
        case extra
        case tags
        case state
        case old
        case kind
        case next
        case portID
        case selfValue = "self"
        case createdAt, updatedAt
    }
}

/// Any JSON value.
///
/// Replace it if you know what a column holds.
indirect enum JSONValue: Codable, Hashable, Sendable {
    case null
    case bool(Bool)
    case integer(Int64)
    case number(Double)
    case string(String)
    case array([JSONValue])
    case object([String: JSONValue])

    /// Reads a JSON text; null if it is none.
    static func parsed(_ text: String) -> JSONValue {
        (try? JSONDecoder().decode(JSONValue.self, from: Data(text.utf8))) ?? .null
    }

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let value = try? container.decode(Bool.self) {
            self = .bool(value)
        } else if let value = try? container.decode(Int64.self) {
            self = .integer(value)
        } else if let value = try? container.decode(Double.self) {
            self = .number(value)
        } else if let value = try? container.decode(String.self) {
            self = .string(value)
        } else if let value = try? container.decode([JSONValue].self) {
            self = .array(value)
        } else {
            self = .object(try container.decode([String: JSONValue].self))
        }
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .null: try container.encodeNil()
        case .bool(let value): try container.encode(value)
        case .integer(let value): try container.encode(value)
        case .number(let value): try container.encode(value)
        case .string(let value): try container.encode(value)
        case .array(let value): try container.encode(value)
        case .object(let value): try container.encode(value)
        }
    }
}
