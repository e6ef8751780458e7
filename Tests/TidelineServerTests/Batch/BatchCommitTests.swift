// BatchCommitTests: how many transactions a batch is.

import Foundation
import Testing
import TidelineCore
import TidelineServerCore
import TidelineServerSQLite

@Suite struct BatchCommitTests {
    /// The commits in a write-ahead log: frames that say how large the database is after them.
    private static func commits(_ database: String) throws -> Int {
        let log = Array(try Data(contentsOf: URL(filePath: database + "-wal")))
        func number(_ place: Int) -> Int {
            log[place..<place + 4].reduce(0) { $0 << 8 | Int($1) }
        }
        guard log.count > 32 else { return 0 }
        let frameBytes = 24 + number(8)
        return stride(from: 32, through: log.count - frameBytes, by: frameBytes).count { frame in
            number(frame + 4) > 0 && log[frame + 8..<frame + 16] == log[16..<24]
        }
    }

    @Test func aThousandInsertsAreOneCommit() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/server.db"
            let door = try await Door(path: path)
            let before = try Self.commits(path)
            let answer = await door.batch(
                (0..<1000).map { number in
                    BatchPart(
                        "\(number)",
                        "post",
                        "tables/TodoItem",
                        #"{"id":"row-\#(number)","rank":\#(number)}"#,
                        group: number < 10 || number >= 20 ? nil : "g"
                    )
                }
            )
            #expect(answer.partStatuses == Array(repeating: 201, count: 1000))
            #expect(try Self.commits(path) == before + 1)
            let count = await door.send("GET", "/tables/TodoItem?$count=true&$top=0")
            #expect(count.row["count"] as? Int == 1000)
            await door.store.stop()
        }
    }
}
