// MonitoringTests: alerts and the dashboard use metrics that exist, and the alerts are explained.

import Foundation
import Testing

struct MonitoringTests {
    @Test("Alert rules and dashboards use only metrics that the server exports")
    func rulesNameMetricsThatAreThere() throws {
        let files = try Repository.files()
        let source = try #require(files.first { $0.path.hasSuffix("/ServerMetrics+Text.swift") })
        let monitoring = files.filter { $0.isIn("docs/monitoring") }
        #expect(monitoring.count == 2)
        let known = Set(source.lines.flatMap(metrics))
        #expect(known.count > 20)
        expectNone(monitoring.flatMap { unknownMetrics(in: $0, known: known) })
    }

    @Test("monitor.md describes each metric, and no other metric")
    func metricsAreDescribed() throws {
        let files = try Repository.files()
        let source = try #require(files.first { $0.path.hasSuffix("/ServerMetrics+Text.swift") })
        let page = try #require(files.first { $0.path == "docs/operations/monitor.md" })
        let known = Set(source.lines.flatMap(metrics))
        let rows = page.lines.filter { $0.hasPrefix("| `tideline_") }
        let described = Set(rows.flatMap { metrics(in: $0.split(separator: "|")[0]) })
        #expect(known.subtracting(described) == [])
        #expect(described.subtracting(known) == [])
    }

    @Test(
        "The metric rule finds unknown metrics",
        arguments: [
            ("expr: tideline_a_total > 1", 0), ("expr: rate(tideline_a_total[5m])", 0),
            ("tideline_time_bucket{le}", 0), ("tideline_b > tideline_a_total", 1),
            ("job=\"tideline\"", 0),
        ]
    )
    func metricRuleCanFail(text: String, count: Int) {
        let file = SourceFile(path: "docs/monitoring/a.yml", text: text)
        let known: Set<String> = ["tideline_a_total", "tideline_time"]
        #expect(unknownMetrics(in: file, known: known).count == count)
    }

    @Test("Each alert is explained in the monitoring document") func alertsAreExplained() throws {
        let files = try Repository.files()
        let rules = try #require(files.first { $0.path == "docs/monitoring/alerts.yml" })
        let page = try #require(files.first { $0.path == "docs/operations/monitor.md" })
        let alerts = rules.lines.compactMap { $0.split(separator: "alert: ").dropFirst().first }
        #expect(!alerts.isEmpty)
        for alert in alerts {
            #expect(page.lines.contains { $0.hasPrefix("| `\(alert)` |") }, "\(alert)")
        }
    }

    @Test("The Grafana dashboard is a JSON object with panels") func theDashboardIsJSON() throws {
        let file = Repository.root.appending(path: "docs/monitoring/grafana.json")
        let json = try JSONSerialization.jsonObject(with: Data(contentsOf: file))
        let dashboard = try #require(json as? [String: Any])
        #expect((dashboard["panels"] as? [Any])?.isEmpty == false)
    }
}

/// Returns the names of metrics in a line.
private func metrics(in line: Substring) -> [String] {
    line.split { !($0.isLetter || $0.isNumber || $0 == "_") }
        .filter { $0.hasPrefix("tideline_") }.map(String.init)
}

private func unknownMetrics(in file: SourceFile, known: Set<String>) -> [Finding] {
    file.lines.enumerated().flatMap { index, line in
        metrics(in: line).filter { name in
            let base = ["_bucket", "_sum", "_count"].first { name.hasSuffix($0) }
                .map { String(name.dropLast($0.count)) }
            return !known.contains(name) && !(base.map(known.contains) ?? false)
        }
        .map { Finding(path: file.path, line: index + 1, message: "Unknown metric '\($0)'.") }
    }
}
