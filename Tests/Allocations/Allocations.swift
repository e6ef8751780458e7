// Allocations: counts the allocations of the main operations of server and client.
//
//     swift run -c release allocations [--check | --record | --stacks OPERATION]
//
// Without an option, it prints the counts next to the thresholds in Tests/Allocations/thresholds.txt.
// `--check` fails if a count is over its threshold, `--record` writes the counts into the file, and
// `--stacks` prints the places that allocate most.

import CAllocations
import Foundation

@main
struct Allocations {
    private static let usage = "usage: allocations [--check | --record | --stacks OPERATION]"

    private enum Mode {
        case show
        case check
        case record
        case stacks(Operation)
    }

    private static var isDebugBuild: Bool {
        #if DEBUG
        true
        #else
        false
        #endif
    }

    static func main() async {
        guard !isDebugBuild else {
            fail("the thresholds are for release builds. Build with 'swift build -c release'.")
        }
        guard tideline_counts_allocations() else {
            fail("this needs Linux with glibc, whose malloc it replaces, and no sanitizer.")
        }
        guard let mode = mode(Array(CommandLine.arguments.dropFirst())) else { fail(usage) }
        do {
            switch mode {
            case .show: try await show(Thresholds.read())
            case .check:
                let findings = try await show(Thresholds.read())
                exit(findings.contains(where: \.isFailure) ? 1 : 0)
            case .record: try Thresholds.write(try await measureAll(against: [:]))
            case .stacks(let operation):
                let count = try await operation.recordStacks()
                try Stacks(operations: count).printLargest()
            }
        } catch {
            fail("\(error)")
        }
    }

    private static func mode(_ arguments: [String]) -> Mode? {
        switch (arguments.first, arguments.count) {
        case (nil, _): return .show
        case ("--check", 1): return .check
        case ("--record", 1): return .record
        case ("--stacks", 2):
            return Operation.all.first { $0.name == arguments[1] }.map(Mode.stacks)
        default: return nil
        }
    }

    private static func fail(_ message: String) -> Never {
        FileHandle.standardError.write(Data("allocations: \(message)\n".utf8))
        exit(2)
    }

    /// Measures all operations and prints the findings below their counts.
    @discardableResult
    private static func show(_ thresholds: [String: Cost]) async throws -> [Finding] {
        let costs = try await measureAll(against: thresholds)
        let findings = Thresholds.findings(costs, thresholds)
        for finding in findings { print(finding) }
        return findings
    }

    private static func measureAll(
        against thresholds: [String: Cost]
    ) async throws -> [(name: String, cost: Cost)] {
        printRow("operation", "allocations", "bytes", "kept", "thresholds")
        var costs: [(name: String, cost: Cost)] = []
        for operation in Operation.all {
            let cost = try await operation.measure()
            let threshold = thresholds[operation.name]
            printRow(
                operation.name,
                Cost.text(cost.allocations),
                Cost.text(cost.bytes, digits: 0),
                Cost.text(cost.kept),
                threshold.map { "\(Cost.text($0.allocations)) \(Cost.text($0.bytes, digits: 0))" }
                    ?? "none"
            )
            costs.append((operation.name, cost))
        }
        return costs
    }

    private static func printRow(_ name: String, _ columns: String...) {
        let widths = [12, 10, 8, 18]
        let cells = zip(columns, widths).map { text, width in
            String(repeating: " ", count: max(1, width - text.count)) + text
        }
        print(name.padding(toLength: 18, withPad: " ", startingAt: 0) + cells.joined())
        fflush(nil)
    }
}
