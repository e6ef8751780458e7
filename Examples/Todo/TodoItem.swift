// TodoItem: the record of the quickstart.

import Foundation
import Tideline

struct TodoItem: SyncRecord {
    var id = UUID().uuidString.lowercased()
    var text: String
    var complete = false
    var updatedAt: Date?
}
