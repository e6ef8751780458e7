// PrivateValues: values that stay on the device, next to rows that are synced, for tests that kill the process.
//
//     SyncProbe STORE SERVER mark N SEED      N changes of private values; 0 for changes without end
//     SyncProbe STORE SERVER keep             pushes and pulls

import Foundation
import Tideline

/// The records of `TodoItem` with a column that stays on the device.
private struct MarkedItem: SyncRecord {
    static let tableName = "TodoItem"
    static let localColumns: [PropertyPath<MarkedItem>] = [\.mark]
    var id = UUID().uuidString.lowercased()
    var text: String
    var complete = false
    var mark = ""
}

/// A record that stays on the device.
private struct Draft: SyncRecord {
    static let isLocalOnly = true
    var id = UUID().uuidString.lowercased()
    var itemID = ""
    var text = ""
}

/// The commands of a device with private values.
enum PrivateValues {
    /// Runs a command; returns false for any other word.
    static func run(
        _ words: [String],
        _ client: SyncClient,
        _ store: SQLiteStore
    ) async throws
        -> Bool
    {
        guard ["mark", "keep"].contains(words[2]) else { return false }
        try await client.syncContext.initialize(
            store: store,
            tables: [MarkedItem.self, Draft.self]
        )
        if words[2] == "keep" {
            try await client.syncContext.push()
            try await client.syncTable(MarkedItem.self).pull(queryID: "all")
        } else if words.count == 5 {
            try await mark(client, times: Int(words[3]) ?? 0, seed: words[4])
        }
        return true
    }

    /// Marks an item and inserts a draft with the same text, in one transaction.
    private static func mark(_ client: SyncClient, times: Int, seed: String) async throws {
        var random = WordGenerator(seed)
        let ids = try await client.syncTable(MarkedItem.self).read().map(\.id).sorted()
        var number = 0
        while times == 0 || number < times {
            number += 1
            guard let id = ids.randomElement(using: &random) else { return }
            let name = "\(seed)-\(number)"
            try await client.syncContext.transaction { transaction in
                try transaction.table(MarkedItem.self).update(id: id) { $0.mark = name }
                let drafts = try transaction.table(Draft.self)
                // One draft for each item: the last one.
                try drafts.upsert(Draft(id: id, itemID: id, text: name))
            }
        }
    }
}
