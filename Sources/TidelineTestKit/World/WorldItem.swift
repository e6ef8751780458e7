// WorldItem: the record of the worlds.

import Tideline

struct WorldItem: SyncRecord {
    var id: String
    var text: String
    var complete = false
    var rank: Int?

    static let tableName = "WorldItem"
}
