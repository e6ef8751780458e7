// SyncProbe: a device as a process of its own, for tests that kill it.
//
//     SyncProbe STORE SERVER fill N PREFIX    inserts N items
//     SyncProbe STORE SERVER edit N SEED      N changes that SEED, a word, decides; 0 for changes without end
//     SyncProbe STORE SERVER push | pull
//     SyncProbe STORE SERVER resend           pushes, pulls and pushes; the device's rows win conflicts, and lost rows are sent again
//     SyncProbe STORE SERVER hold             takes the turn to sync, and keeps it
//     SyncProbe STORE SERVER cascade fill N | push | delete
//                                             N customers with jobs and visits; deletes the customers

//     SyncProbe STORE SERVER mark N SEED | keep   see PrivateValues
//     SyncProbe STORE SERVER first T N        a first sync of T tables with N rows each; without a port
//                                             in SERVER the rows are made up

import Foundation
import Tideline

struct TodoItem: SyncRecord {
    var id = UUID().uuidString.lowercased()
    var text: String
    var complete = false
}

@main
struct SyncProbe {
    static func main() async {
        do {
            try await run(Array(CommandLine.arguments.dropFirst()))
        } catch {
            FileHandle.standardError.write(Data("\(error)\n".utf8))
            exit(1)
        }
    }

    private static func run(_ words: [String]) async throws {
        guard words.count >= 3, let server = URL(string: words[1]) else { exit(2) }
        if words[2] == "first", words.count == 5, let tables = Int(words[3]),
            let rows = Int(words[4])
        {
            return try await MadeUpServer.firstSync(
                words[0],
                from: server,
                tables: tables,
                rows: rows
            )
        }
        if words[2] == "cascade", words.count >= 4 {
            let device = try await CascadeDevice(words[0], server)
            switch words[3] {
            case "fill": return try await device.fill(words.count == 5 ? Int(words[4]) ?? 0 : 0)
            case "push":
                try await device.client.syncContext.push()
                return
            case "delete": return try await device.deleteAll()
            default: exit(2)
            }
        }
        // Small pages, so that a pull of few rows can be cut in many places.
        var limits = SyncLimits()
        limits.pageRowsMax = 40
        let client = SyncClient(endpoint: server, limits: limits)
        let store = try SQLiteStore(path: words[0])
        if try await PrivateValues.run(words, client, store) { return }
        let isResending = words[2] == "resend"
        try await client.syncContext.initialize(
            store: store,
            tables: [TodoItem.self],
            conflicts: isResending ? .clientWins : .fail,
            lostRows: isResending ? .sendAgain : .ask
        )
        let items = try client.syncTable(TodoItem.self)
        switch (words[2], words.count) {
        case ("push", 3): try await client.syncContext.push()
        case ("pull", 3): try await items.pull(queryID: "all")
        case ("resend", 3):
            try await client.syncContext.push()
            try await items.pull(queryID: "all")
            try await client.syncContext.push()
        case ("hold", 3):
            let lease = SyncLimits().turnTimeMax
            guard store.acquireSyncLease(at: Date(), duration: lease, isForced: false) != nil else {
                exit(1)
            }
            print("held")
            fflush(nil)
            try await Task.sleep(for: .seconds(3600))
        case ("fill", 5):
            for number in 0..<(Int(words[3]) ?? 0) {
                let name = "\(words[4])-\(number)"
                try await items.insert(TodoItem(id: name, text: name))
            }
        case ("edit", 5):
            try await edit(items, times: Int(words[3]) ?? 0, seed: words[4])
        default: exit(2)
        }
    }

    /// Every change writes a text that no other writes.
    private static func edit(_ items: SyncTable<TodoItem>, times: Int, seed: String) async throws {
        var random = WordGenerator(seed)
        var ids = try await items.read().map(\.id).sorted()
        var number = 0
        while times == 0 || number < times {
            number += 1
            let name = "\(seed)-\(number)"
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<3:
                try await items.insert(TodoItem(id: name, text: name))
                ids.append(name)
            case 3..<5 where !ids.isEmpty:
                try await items.delete(id: ids.remove(at: .random(in: ids.indices, using: &random)))
            default:
                guard let id = ids.randomElement(using: &random) else { continue }
                try await items.update(id: id) { $0.text = name }
            }
        }
    }
}

/// Random numbers that a word decides (SplitMix64); the test kit, with a server, is too much for this program.
struct WordGenerator: RandomNumberGenerator {
    private var state: UInt64

    /// Starts at the hash of a word (FNV-1a), which is the same in every process.
    init(_ word: String) {
        state = word.utf8.reduce(14_695_981_039_346_656_037) {
            ($0 ^ UInt64($1)) &* 1_099_511_628_211
        }
    }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
