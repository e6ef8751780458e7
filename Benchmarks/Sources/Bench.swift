// Bench: the subcommands of the program `bench`. Each prints lines "name<TAB>value<TAB>unit", or the data
// of the server that a wrk workload needs.

import Foundation
import Tideline

enum Bench {
    private static let usage = """
        usage: bench middle URL             updatedAt of the row in the middle
               bench tags URL COUNT         lines "path etag" of the first rows
               bench pages URL              the whole table in pages of 1000, not stored
               bench pages URL KIND         the same of a peer: pocketbase or kinto
               bench links URL QUERY        next links to the beginning, middle and end of a list
               bench delta URL              link to later changes, and the size of its response
               bench live URL COUNT COMMITS [URL]
                                            COUNT listeners, and the delay of their events; the
                                            second URL is another server of the same database
               bench local DIR SECONDS      writes and reads of a store file
               bench watched DIR SECONDS    observed lists, and the changes of their rows
               bench jobs DIR ROWS SECONDS  inserts and reads of a model with nested values
               bench search DIR ROWS        inserts with a search index, and searches
               bench orders DIR ROWS        inserts with an index in the order of a language, and pages
               bench read DIR ROWS SECONDS  lists, observed lists and opening a store
               bench related DIR SECONDS    records with their children or parents
               bench push URL DIR COUNT MS  pushes COUNT inserts over a link of MS round trip
               bench queue URL DIR COUNT    the memory while COUNT inserts are pushed
               bench heard URL DIR COUNT    the delay of COUNT changes to another client
               bench pull URL DIR KIND      pulls the whole table into a store file
               bench memory URL DIR         the memory during a pull
               bench store DIR ROWS KIND    creates rows without a server; KIND of ids: random or v7
        """

    static func run(_ words: [String]) async {
        do {
            switch (words.first, words.count) {
            case ("middle", 2): try await ServerTable(words[1]).printMiddle()
            case ("tags", 3): try await ServerTable(words[1]).printTags(Int(words[2]) ?? 0)
            case ("pages", 2): try await ServerTable(words[1]).readPages()
            case ("pages", 3): try await PeerTable(words[1], kind: words[2]).readPages()
            case ("links", 3): try await ServerTable(words[1]).printLinks(words[2])
            case ("delta", 2): try await ServerTable(words[1]).printDelta()
            case ("local", 3):
                let time = Duration.seconds(Int(words[2]) ?? 1)
                try await LocalWork(directory: words[1], time: time).measure()
            case ("watched", 3):
                let time = Duration.seconds(Int(words[2]) ?? 1)
                try await WatchedLists(directory: words[1], time: time).measure()
            case ("jobs", 4):
                let time = Duration.seconds(Int(words[3]) ?? 1)
                try await Jobs(directory: words[1], rows: Int(words[2]) ?? 0, time: time).measure()
            case ("search", 3):
                try await Searches(directory: words[1], rows: Int(words[2]) ?? 0).measure()
            case ("orders", 3):
                try await Orders(directory: words[1], rows: Int(words[2]) ?? 0).measure()
            case ("read", 4):
                let time = Duration.seconds(Int(words[3]) ?? 1)
                try await Reads(directory: words[1], rows: Int(words[2]) ?? 0, time: time).measure()
            case ("related", 3):
                let time = Duration.seconds(Int(words[2]) ?? 1)
                try await RelatedReads(directory: words[1], time: time).measure()
            case ("push", 5):
                try await Pushes(server: words[1], directory: words[2], count: Int(words[3]) ?? 0)
                    .measure(delay: Int(words[4]) ?? 0)
            case ("queue", 4):
                try await Pushes(server: words[1], directory: words[2], count: Int(words[3]) ?? 0)
                    .measureMemory()
            case ("heard", 4):
                try await TwoDevices(server: words[1], directory: words[2])
                    .measure(changes: Int(words[3]) ?? 0)
            case ("pull", 4):
                let device = try await Device.open(in: words[2], server: words[1])
                try await Pulls(directory: words[2], name: "pull, \(words[3]) ids").measure(device)
            case ("memory", 3):
                let device = try await Device.open(in: words[2], server: words[1])
                try await Pulls(directory: words[2], name: "pull").measureMemory(device)
            case ("store", 4):
                guard let ids = CannedTable.Identifiers(rawValue: words[3]) else { fail(usage) }
                let table = CannedTable(rows: Int(words[2]) ?? 0, ids)
                let device = try await Device.open(in: words[1], transport: table)
                try await Pulls(directory: words[1], name: "store, \(ids) ids").measure(device)
            case ("live", 4), ("live", 5):
                let other = words.count > 4 ? words[4] : words[1]
                let listeners = try Listeners(words[1], writesTo: other)
                try listeners.open(Int(words[2]) ?? 0)
                // The calling script may measure the server's memory now.
                print("open")
                fflush(nil)
                _ = readLine()
                try listeners.measure(commits: Int(words[3]) ?? 0)
            default: fail(usage)
            }
        } catch {
            fail("bench \(words.joined(separator: " ")): \(error)")
        }
    }

    private static func fail(_ message: String) -> Never {
        FileHandle.standardError.write(Data("\(message)\n".utf8))
        exit(1)
    }

    /// Prints one figure for scripts/bench.
    static func report(_ name: String, _ value: Double, _ unit: String) {
        let digits = value < 10 ? 2 : value < 100 ? 1 : 0
        print("\(name)\t\(String(format: "%.\(digits)f", value))\t\(unit)")
    }
}

extension Duration {
    var seconds: Double {
        Double(components.seconds) + Double(components.attoseconds) / 1e18
    }
}
