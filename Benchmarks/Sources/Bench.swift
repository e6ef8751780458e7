// Bench: the words of the command. Each prints lines "name<TAB>value<TAB>unit", or what a
// workload of wrk needs to know of the server.

import Foundation
import Tideline

enum Bench {
    private static let usage = """
        usage: bench middle URL             updatedAt of the row in the middle
               bench tags URL COUNT         lines "path etag" of the first rows
               bench pages URL              the whole table in pages of 1000, not stored
               bench pages URL KIND         the same of a peer: pocketbase or kinto
               bench links URL QUERY        next links to the begin, middle and end of a list
               bench delta URL              link to the changes after now, and bytes of its answer
               bench local DIR SECONDS      changes and reads of a store file
               bench push URL DIR COUNT     so many inserts, in batches
               bench push URL DIR COUNT MS  the same over a link with so long a round trip
               bench live URL COUNT COMMITS so many listeners, and how soon they hear of commits
               bench pull URL DIR           the whole table into a store file
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
                try await Device.open(in: words[1]).measureChanges(
                    for: .seconds(Int(words[2]) ?? 1)
                )
            case ("push", 4), ("push", 5):
                let delay = words.count == 5 ? Int(words[4]) ?? 0 : 0
                try await Device.open(in: words[2], server: words[1], delay: delay)
                    .measurePush(Int(words[3]) ?? 0, delay: delay)
            case ("live", 4):
                let listeners = try Listeners(words[1])
                try listeners.open(Int(words[2]) ?? 0)
                // Whoever measures the server's memory may do so now.
                print("open")
                fflush(nil)
                _ = readLine()
                try listeners.measure(commits: Int(words[3]) ?? 0)
            case ("pull", 3):
                try await Device.open(in: words[2], server: words[1]).measurePull()
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

    /// One figure, for scripts/bench.
    static func report(_ name: String, _ value: Double, _ unit: String) {
        print("\(name)\t\(Int(value.rounded()))\t\(unit)")
    }
}

extension Duration {
    var seconds: Double {
        Double(components.seconds) + Double(components.attoseconds) / 1e18
    }
}
