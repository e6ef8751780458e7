// Findings: prints the results of the doctor.

import TidelineServerCore

/// The results of the doctor's checks, as text or JSON.
struct Findings: Sendable {
    enum State: String, Sendable {
        case fine
        case warning
        case fault
    }

    private var reports: [Report] = []
    /// Whether a finding prevents syncing.
    private(set) var hasFault = false

    mutating func add(_ name: String, _ state: State, _ text: String) {
        reports.append(
            Report([
                "check": .text(name), "state": .text(state.rawValue),
                "text": .text(PasswordFilter.filtered(text)),
            ])
        )
        if state == .fault { hasFault = true }
    }

    func text(isJSON: Bool) -> String {
        let report = Report(["isWell": .flag(!hasFault), "checks": .list(reports)])
        return isJSON ? report.json : report.text
    }
}
