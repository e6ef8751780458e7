// DashboardSetup: the page for operators, from the configuration: its key, its gate, what it shows.

import Foundation
import TidelineCore
import TidelineDashboard
import TidelineHTTP
package import TidelineServerCore

extension ServerConfiguration {
    mutating func readDashboard(_ node: ConfigurationNode) {
        for (name, node) in node.object(allowed: ["mode", "devices", "slowRequests", "slowTime"]) {
            switch name {
            case "mode": Self.put(node.choice(Dashboard.Mode.self), &dashboard.mode)
            case "devices": Self.put(node.integer(0...100_000), &dashboard.devices)
            case "slowRequests": Self.put(node.integer(0...10_000), &dashboard.slowRequests)
            default: Self.put(node.seconds(), &dashboard.slowTime)
            }
        }
    }

    /// The page with who may use it; what it shows of the configuration is no secret.
    package func makeDashboard() -> TidelineServerCore.Dashboard {
        let slow = dashboard.slowTime.components
        return TidelineServerCore.Dashboard(
            gate: OperatorGate(
                mode: OperatorGate.Mode(rawValue: dashboard.mode.rawValue) ?? .off,
                hasAuthentication: authentication != nil,
                isLoopback: isLoopback,
                host: host,
                operators: authentication?.operators
            ),
            files: DashboardPage.files.map {
                DashboardFile(name: $0.name, type: $0.type, body: $0.body)
            },
            settings: settingsInForce,
            devicesMax: dashboard.devices,
            slow: SlowRequests(
                countMax: dashboard.slowRequests,
                microsecondsMin: slow.seconds * 1_000_000 + slow.attoseconds / 1_000_000_000_000
            ),
            migration: { [configuration = self] in
                try await configuration.migrationSteps()
            }
        )
    }

    /// What `tideline migrate` would say; empty where there is no file.
    private func migrationSteps() async throws -> [String] {
        guard case .sqlite = database else { return [] }
        return try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread {
                continuation.resume(
                    with: Result { try ServerDatabase(self).migrationPlan().steps }
                )
            }
        }
    }

    /// Keys and values as a configuration file would have them.
    private var settingsInForce: [DashboardSetting] {
        var list = [
            DashboardSetting("listen", "\(host):\(port)"),
            DashboardSetting("database", databaseName),
            DashboardSetting("publicURL", publicURL ?? "–"),
            DashboardSetting("dynamicSchema", "\(dynamicSchema)"),
            DashboardSetting("dashboard.mode", dashboard.mode.rawValue),
            DashboardSetting("loops", "\(loops)"),
            DashboardSetting("readers", readers.map { "\($0)" } ?? "–"),
            DashboardSetting("cors.origins", cors.origins.joined(separator: ", ")),
            DashboardSetting("proxies.trusted", proxies.trusted.joined(separator: ", ")),
            DashboardSetting("proxies.header", proxies.header.rawValue),
            DashboardSetting("log.level", log.level.rawValue),
            DashboardSetting("log.format", log.format.rawValue),
            DashboardSetting("log.requests", log.requests.rawValue),
        ]
        if let authentication {
            list += [
                DashboardSetting("authentication.issuer", authentication.issuer ?? "–"),
                DashboardSetting("authentication.audience", authentication.audience ?? "–"),
                DashboardSetting(
                    "authentication.operators",
                    (authentication.operators ?? []).joined(separator: ", ")
                ),
            ]
        } else {
            list.append(DashboardSetting("authentication", "–"))
        }
        return list + limitsInForce
    }

    /// A password may stand in an address.
    private var databaseName: String {
        switch database {
        case .sqlite(let path): "sqlite:\(path)"
        case .memory: "sqlite::memory:"
        case .postgres: "postgres"
        }
    }

    private var limitsInForce: [DashboardSetting] {
        let numbers: KeyValuePairs = [
            "pageBytes": limits.pageBytes, "rowBytes": limits.rowBytes,
            "logBytes": limits.logBytes, "writeQueue": limits.writeQueue,
            "mergeBases": limits.mergeBases, "patchSteps": limits.patchSteps,
            "batchRequests": limits.batchRequests, "batchBytes": limits.batchBytes,
            "batchAnswerBytes": limits.batchAnswerBytes, "ledgerDays": limits.ledgerDays,
            "ledgerBytes": limits.ledgerBytes, "auditDays": limits.auditDays,
            "changeDays": limits.changeDays,
            "changeScan": limits.changeScan, "bodyBytes": http.bodyBytesMax,
            "bodiesBytes": http.bodiesBytesMax, "answersBytes": http.answersBytesMax,
            "answerRate": http.answerRateMin, "headerBytes": http.headerBytesMax,
            "headerFields": http.headerFieldsMax, "connections": http.connectionsMax,
            "listeners": http.listenersMax, "lingerBytes": http.lingerBytesMax,
            "callerQueries": limits.callerQueries,
        ]
        let times: KeyValuePairs = [
            "queryTime": limits.queryTime, "headerTime": http.headerTimeMax,
            "requestTime": http.requestTimeMax, "handlerTime": http.handlerTimeMax,
            "answerTime": http.answerTimeMax, "idleTime": http.idleTimeMax,
            "lingerTime": http.lingerTimeMax, "drainTime": http.drainTimeMax,
            "eventsHeartbeat": http.eventsHeartbeat,
        ]
        return numbers.map { DashboardSetting("limits.\($0)", "\($1)") }
            + times.map { DashboardSetting("limits.\($0)", "\($1)") }
    }
}
