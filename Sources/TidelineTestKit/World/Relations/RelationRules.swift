// RelationRules: the values that simulated users set in the columns of jobs that are subject to
// rules.

import Tideline
import TidelineCore

/// The values for columns with rules, some of which break a rule.
enum RelationRules {
    /// Returns values for one or more columns.
    static func values(_ random: inout SeededGenerator) -> [String: Value] {
        var values: [String: Value] = [:]
        if random.chance(50) { values["number"] = number(&random) }
        if random.chance(50) { values["start"] = day(&random) }
        if random.chance(50) || values.isEmpty { values["end"] = day(&random) }
        // A number without digits breaks the pattern.
        if random.chance(5) { values["number"] = "J-" }
        return values
    }

    /// Returns one of a few numbers, which other jobs may already have.
    static func number(_ random: inout SeededGenerator) -> Value {
        .string("J-\(random.below(8))")
    }

    private static func day(_ random: inout SeededGenerator) -> Value {
        random.chance(10) ? .null : .integer(Int64(random.below(10)))
    }

    /// Returns the rules that a device's jobs break.
    static func faults(in jobs: [Row]) -> [String] {
        var faults: [String] = []
        var numbers: [String: String] = [:]
        for job in jobs {
            if case .integer(let start) = job["start"], case .integer(let end) = job["end"],
                start > end
            {
                faults.append("\(job.id) starts at \(start) and ends at \(end)")
            }
            guard let number = job["number"]?.text else { continue }
            if number == "J-" { faults.append("\(job.id) has the number \(number)") }
            if let other = numbers.updateValue(job.id, forKey: number) {
                faults.append("\(job.id) and \(other) have the number \(number)")
            }
        }
        return faults
    }
}
