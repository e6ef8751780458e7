// WorldItem: the records that the simulations use, and a value that can be nested to any depth.

import Foundation
import Tideline

/// A record that users edit in simulations.
protocol WorldRecord: SyncRecord {
    var text: String { get set }
    var rank: Int? { get set }
    /// The row state that the record names: its version, or the milliseconds of its time since
    /// 1970.
    var state: String? { get }
}

/// The record without system columns.
struct WorldItem: WorldRecord, Equatable {
    var id: String
    var text: String
    var complete = false
    var rank: Int?
    var nested: WorldNest?

    static let rules: [Rule<WorldItem>] = [
        .required(\.text), .maxLength(\.text, 24), .range(\.rank, 0...1_000_000),
    ]
    static let tableName = "WorldItem"
    var state: String? { nil }
}

/// A record of the same table with `updatedAt`.
struct WorldTimedItem: WorldRecord {
    var id: String
    var text: String
    var complete = false
    var rank: Int?
    var nested: WorldNest?
    var updatedAt: Date?

    static let rules: [Rule<WorldTimedItem>] = [
        .required(\.text), .maxLength(\.text, 24), .range(\.rank, 0...1_000_000),
    ]
    static let tableName = WorldItem.tableName
    var state: String? {
        updatedAt.map { "\(Int64(($0.timeIntervalSince1970 * 1000).rounded()))" }
    }
}

/// A record of the same table with `version`.
struct WorldVersionedItem: WorldRecord {
    var id: String
    var text: String
    var complete = false
    var rank: Int?
    var nested: WorldNest?
    var version: String?

    static let rules: [Rule<WorldVersionedItem>] = [
        .required(\.text), .maxLength(\.text, 24), .range(\.rank, 0...1_000_000),
    ]
    static let tableName = WorldItem.tableName
    var state: String? { version }
}

/// The value of a JSON column: nested arrays.
struct WorldNest: Codable, Sendable, Hashable {
    var depth: Int

    init(depth: Int) { self.depth = depth }

    init(from decoder: any Decoder) throws {
        var container = try decoder.unkeyedContainer()
        var depth = 1
        while !container.isAtEnd {
            container = try container.nestedUnkeyedContainer()
            depth += 1
        }
        self.depth = depth
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.unkeyedContainer()
        for _ in 1..<max(1, depth) { container = container.nestedUnkeyedContainer() }
    }
}
