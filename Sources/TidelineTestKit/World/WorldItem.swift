// WorldItem: the records of the worlds, and a value that is nested to any depth.

import Foundation
import Tideline

/// A record whose users edit it in worlds.
protocol WorldRecord: SyncRecord {
    var text: String { get set }
    var rank: Int? { get set }
}

/// All that the users see.
struct WorldItem: WorldRecord, Equatable {
    var id: String
    var text: String
    var complete = false
    var rank: Int?
    var nested: WorldNest?

    static let tableName = "WorldItem"
}

/// The same table in a model that knows when a row was written.
struct WorldTimedItem: WorldRecord {
    var id: String
    var text: String
    var complete = false
    var rank: Int?
    var nested: WorldNest?
    var updatedAt: Date?

    static let tableName = WorldItem.tableName
}

/// The same table in a model that knows the version of a row.
struct WorldVersionedItem: WorldRecord {
    var id: String
    var text: String
    var complete = false
    var rank: Int?
    var nested: WorldNest?
    var version: String?

    static let tableName = WorldItem.tableName
}

/// Arrays in arrays: a JSON column.
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
