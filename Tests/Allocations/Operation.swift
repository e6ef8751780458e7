// Operation: an operation that is measured, and how often.

import CAllocations
import Foundation

struct Operation: Sendable {
    /// Performs the operations of one run; everything that it allocates is counted.
    typealias Run = () async throws -> Void
    /// Prepares a run.
    typealias Preparation = () async throws -> Run

    let name: String
    /// The number of operations of one run.
    let count: Int
    /// The number of counted runs; the least count has the least work of other threads in it.
    var runs = 5
    /// Opens the server or the device in an empty directory.
    let open: @Sendable (_ directory: String) async throws -> Preparation

    static let all = serverOperations + clientOperations

    /// The fewest operations before the counted ones; they fill caches.
    private static let warmUpMin = 300

    private var warmUpRuns: Int { max(2, Self.warmUpMin / count) }

    /// Returns what one operation allocates.
    func measure() async throws -> Cost {
        try await withDirectory { directory in
            let prepare = try await open(directory)
            for _ in 0..<warmUpRuns { try await prepare()() }
            var costs: [Cost] = []
            for _ in 0..<runs {
                let run = try await prepare()
                let start = tideline_allocations()
                try await run()
                costs.append(Cost(from: start, to: tideline_allocations(), operations: count))
            }
            var least = costs[0]
            for cost in costs.dropFirst() {
                least.allocations = min(least.allocations, cost.allocations)
                least.bytes = min(least.bytes, cost.bytes)
                least.kept = min(least.kept, cost.kept)
            }
            return least
        }
    }

    /// Records the stacks of one run, and returns the number of its operations.
    func recordStacks() async throws -> Int {
        try await withDirectory { directory in
            let prepare = try await open(directory)
            for _ in 0..<warmUpRuns { try await prepare()() }
            let run = try await prepare()
            let start = tideline_allocations()
            tideline_begin_recording()
            try await run()
            let recorded = tideline_end_recording()
            let counted = tideline_allocations().count - start.count
            // A long run has more allocations than a recording has space for.
            return max(1, count * recorded / max(recorded, Int(counted)))
        }
    }

    private func withDirectory<Result>(
        _ body: (String) async throws -> Result
    ) async throws -> Result {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "tideline-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        return try await body(directory.path)
    }
}

/// An operation that did not do what is measured.
struct WrongResult: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
