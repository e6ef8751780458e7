// FirstSyncMemoryTests: the memory of a first sync is bounded, for many tables and for tables with many pages.

import Foundation
import Testing
import TidelineTestSupport

@Suite(.slow, .timeLimit(.minutes(5))) struct FirstSyncMemoryTests {
    /// Runs a first sync; `bound` is the maximum memory of the process in kilobytes.
    @Test(
        "The memory of a first sync is bounded for many tables and for large tables",
        arguments: [(80, 2000, 60_000), (6, 20_000, 80_000)]
    )
    func memory(tables: Int, rows: Int, bound: Int) async throws {
        try await withWorkspace { workspace in
            let counts = ["\(tables)", "\(rows)"]
            let probe = [workspace.path("many.sqlite"), "http://localhost", "first"] + counts
            let finished = try await workspace.run(.probe, probe)
            #expect(finished.code == 0, "\(finished.error)")
            let lines = finished.output.split(separator: "\n").map(String.init)
            #expect(lines.first == "rows \(tables * rows)")
            let peak = lines.last?.split(separator: " ").last.flatMap { Int($0) }
            #expect(try #require(peak) < bound, "\(lines)")
        }
    }
}
