// DashboardSetup: the page for operators, from the configuration: its key, its gate, what it shows.

import Foundation
import TidelineCore
import TidelineDashboard
import TidelineHTTP
package import TidelineServerCore

extension ServerConfiguration {
    /// The page with who may use it; what it shows of the configuration is no secret.
    ///
    /// `operators` are those whose list may change while the server runs.
    package func makeDashboard(
        operators: Operators? = nil
    ) -> TidelineServerCore.Dashboard {
        let slow = dashboard.slowTime.components
        return TidelineServerCore.Dashboard(
            gate: OperatorGate(
                mode: OperatorGate.Mode(rawValue: dashboard.mode.rawValue) ?? .off,
                hasAuthentication: authentication != nil,
                isLoopback: isLoopback,
                host: host,
                operators: operators ?? Operators(authentication?.operators)
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

    /// What `tideline migrate` would say; empty for a database in memory.
    ///
    /// On PostgreSQL it is tried in a transaction that is undone.
    private func migrationSteps() async throws -> [String] {
        if case .memory = database { return [] }
        return try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread {
                continuation.resume(
                    with: Result { try ServerDatabase(self).migrationPlan().steps }
                )
            }
        }
    }
}
