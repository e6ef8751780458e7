// The memory of a first sync: it does not grow with the number of tables.

import Foundation
import Testing

@Suite(.timeLimit(.minutes(5))) struct FirstSyncMemoryTests {
    @Test("a first sync of 80 tables takes less than 60 MB")
    func manyTables() async throws {
        try await withWorkspace { workspace in
            let probe = [workspace.path("many.sqlite"), "http://localhost", "first", "80", "2000"]
            let finished = try await workspace.run(.probe, probe)
            #expect(finished.code == 0, "\(finished.error)")
            let lines = finished.output.split(separator: "\n").map(String.init)
            #expect(lines.first == "rows 160000")
            let peak = lines.last?.split(separator: " ").last.flatMap { Int($0) }
            #expect(try #require(peak) < 60_000, "\(lines)")
        }
    }
}
