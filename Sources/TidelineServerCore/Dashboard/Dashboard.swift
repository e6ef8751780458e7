// Dashboard: the server's side of the dashboard.

import Synchronization
import TidelineCore

/// A file of the page.
package struct DashboardFile: Sendable {
    package var name: String
    package var type: String
    package var body: [UInt8]
    /// The entity tag of the contents.
    let tag: String

    package init(name: String, type: String, body: [UInt8]) {
        self.name = name
        self.type = type
        self.body = body
        let bits = Fingerprint([String(decoding: body, as: UTF8.self)]).bits
        tag = "\"" + String(UInt64(truncatingIfNeeded: bits), radix: 36) + "\""
    }
}

/// A current setting as the page shows it, which is never a secret.
package struct DashboardSetting: Hashable, Sendable {
    package var key: String
    package var value: String

    package init(_ key: String, _ value: String) {
        self.key = key
        self.value = value
    }
}

/// The operators' page with its files, its access rules, and the recorded activity of callers.
package final class Dashboard: Sendable {
    let gate: OperatorGate
    /// The page itself.
    let index: DashboardFile?
    private let files: [String: DashboardFile]
    private let inForce: Mutex<[DashboardSetting]>
    /// Returns the steps of a migration, a sentence each; computing them may take a while.
    private let migration: @Sendable () async throws -> [String]
    /// The computation of the migration's steps that is running.
    private let planning = Mutex<Task<[String], any Error>?>(nil)
    let devices: RecentDevices
    let slow: SlowRequests
    let started: Int64

    /// The file `index.html` is the page; it loads the other files.
    package init(
        gate: OperatorGate,
        files: [DashboardFile],
        settings: [DashboardSetting] = [],
        devicesMax: Int = 1000,
        slow: SlowRequests = SlowRequests(),
        started: Int64 = ServerEnvironment.live.now(),
        migration: @escaping @Sendable () async throws -> [String] = { [] }
    ) {
        self.gate = gate
        self.files = Dictionary(files.map { ($0.name, $0) }) { $1 }
        index = self.files["index.html"]
        inForce = Mutex(settings)
        self.migration = migration
        devices = RecentDevices(countMax: devicesMax)
        self.slow = slow
        self.started = started
    }

    /// The current settings.
    var settings: [DashboardSetting] { inForce.withLock { $0 } }

    /// Replaces the settings that the page shows.
    package func show(_ settings: [DashboardSetting]) {
        inForce.withLock { $0 = settings }
    }

    /// Returns the steps of a migration.
    ///
    /// Concurrent calls share one computation.
    func plannedMigration() async throws -> [String] {
        let task = planning.withLock { planning in
            if let planning { return planning }
            let task = Task { [migration, self] in
                defer { self.planning.withLock { $0 = nil } }
                return try await migration()
            }
            planning = task
            return task
        }
        return try await task.value
    }

    /// Returns the response with a file, or 304 if the caller already has it.
    func answer(_ name: String, _ headers: HTTPFields) throws(ServerError) -> ServerResponse {
        guard let file = files[name] else { throw ServerError.noSuchPath }
        let isKnown =
            headers["If-None-Match"].map { $0 == "*" || $0.contains(file.tag) } ?? false
        var response = ServerResponse(status: isKnown ? 304 : 200)
        if !isKnown {
            response.headers.append("Content-Type", file.type)
            response.body = file.body
        }
        response.headers.append("ETag", file.tag)
        response.headers.append("Cache-Control", "no-cache")
        for (name, value) in Self.guards { response.headers.append(name, value) }
        return response
    }

    /// The header fields of the page, which loads nothing from other origins, runs no inline scripts, and
    /// cannot be framed.
    private static let guards: KeyValuePairs = [
        "Content-Security-Policy":
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
            + "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
            + "require-trusted-types-for 'script'; trusted-types 'none'",
        "X-Frame-Options": "DENY",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
    ]
}
