// Thresholds: the allocations and bytes that each operation may have, in a file of the tree.

import Foundation

/// A count that differs from its threshold.
struct Finding: CustomStringConvertible {
    var isFailure: Bool
    var description: String
}

enum Thresholds {
    /// The difference, as a part of a threshold, from which on a count is reported.
    private static let tolerance = 0.05

    private static let file = URL(filePath: #filePath)
        .deletingLastPathComponent().appending(path: "thresholds.txt")

    private struct Unreadable: Error, CustomStringConvertible {
        var line: Substring

        var description: String {
            "Cannot read the line '\(line)' of thresholds.txt. Write a name and two numbers."
        }
    }

    static func read() throws -> [String: Cost] {
        let text = try String(contentsOf: file, encoding: .utf8)
        var thresholds: [String: Cost] = [:]
        for line in text.split(separator: "\n") where !line.hasPrefix("#") {
            let words = line.split(separator: " ")
            guard words.count == 3, let allocations = Double(words[1]), let bytes = Double(words[2])
            else { throw Unreadable(line: line) }
            thresholds[String(words[0])] = Cost(allocations: allocations, bytes: bytes)
        }
        return thresholds
    }

    static func write(_ costs: [(name: String, cost: Cost)]) throws {
        var text = """
            # What one operation may allocate: its name, allocations, bytes. `make check` fails if a count is more than
            # 5 % over its threshold. `allocations --record` writes this file; see docs/contributing/test.md.

            """
        for (name, cost) in costs {
            text += "\(name) \(Cost.text(cost.allocations)) \(Cost.text(cost.bytes, digits: 0))\n"
        }
        try text.write(to: file, atomically: true, encoding: .utf8)
    }

    /// Compares counts with their thresholds.
    static func findings(
        _ costs: [(name: String, cost: Cost)],
        _ thresholds: [String: Cost]
    ) -> [Finding] {
        var findings = costs.flatMap { name, cost -> [Finding] in
            guard let threshold = thresholds[name] else {
                let message = "\(name): it has no threshold. Run 'allocations --record'."
                return [Finding(isFailure: true, description: message)]
            }
            return [
                finding(name, "allocations", cost.allocations, threshold.allocations),
                finding(name, "bytes", cost.bytes, threshold.bytes),
            ].compactMap(\.self)
        }
        let names = Set(costs.map(\.name))
        findings += thresholds.keys.filter { !names.contains($0) }.sorted().map { name in
            let message = "\(name): this operation does not exist. Run 'allocations --record'."
            return Finding(isFailure: true, description: message)
        }
        return findings
    }

    private static func finding(
        _ name: String,
        _ unit: String,
        _ count: Double,
        _ threshold: Double
    ) -> Finding? {
        let difference = threshold > 0 ? count / threshold - 1 : count > 0 ? .infinity : 0
        guard abs(difference) > tolerance else { return nil }
        let percent = Cost.text(abs(difference) * 100)
        let numbers = "\(name): \(Cost.text(count)) \(unit), \(percent) %"
        if difference > 0 {
            let message =
                "\(numbers) over the threshold of \(Cost.text(threshold)). "
                + "'allocations --stacks \(name)' prints where they come from."
            return Finding(isFailure: true, description: message)
        }
        let message =
            "\(numbers) below the threshold of \(Cost.text(threshold)). "
            + "Lower it with 'allocations --record'."
        return Finding(isFailure: false, description: message)
    }
}
