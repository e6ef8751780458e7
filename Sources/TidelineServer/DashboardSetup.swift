// DashboardSetup: the page for operators, from the configuration: its key, its access, its content.

import Foundation
import TidelineCore
import TidelineDashboard
import TidelineHTTP
package import TidelineServerCore

extension ServerConfiguration {
    /// Returns the page with the users that may open it; it contains no secrets of the configuration.
    ///
    /// `operators` is the list of operators, which may change while the server runs.
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

    /// Returns the steps of `tideline migrate`; empty for a database in memory.
    ///
    /// On PostgreSQL they are tried in a transaction that is rolled back.
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
