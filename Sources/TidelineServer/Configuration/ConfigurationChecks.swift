// ConfigurationChecks: checks a configuration beyond its keys: hooks that would never run, the reachability of the
// server, the destination of its log.

import Foundation
import TidelineHTTP
import TidelineServerCore
import TidelineServerPostgres

extension ServerConfiguration {
    /// Rejects hooks and endpoints that would never be called.
    func checkCode() throws(ConfigurationError) {
        var faults: [String] = []
        let tables = Set(tables.map { $0.name.lowercased() })
        var hooked: Set<String> = []
        for name in hooks.keys.sorted() {
            if !hooked.insert(name.lowercased()).inserted {
                faults.append("hooks: table '\(name)' is listed twice, in different letter case")
            }
            if !dynamicSchema, !tables.contains(name.lowercased()) {
                faults.append("hooks: table '\(name)' does not exist")
            }
        }
        var routes: Set<String> = []
        for endpoint in endpoints {
            let route = endpoint.method + " " + endpoint.path
            if let fault = endpoint.fault { faults.append("endpoint '\(route)': \(fault)") }
            if !routes.insert(route.lowercased()).inserted {
                faults.append("endpoint '\(route)' is declared twice")
            }
        }
        guard faults.isEmpty else { throw ConfigurationError(faults) }
    }

    /// Returns the mistakes that prevent the server from starting and that can be found without its database.
    package func mistakes() -> [String] {
        var found: [String] = []
        func attempt(_ body: () throws -> Void) {
            do {
                try body()
            } catch let error as ConfigurationError {
                found += error.faults.filter { !found.contains($0) }
            } catch {
                found.append("\(error)")
            }
        }
        attempt { _ = try authentication?.makeVerifier() }
        attempt { _ = try tls?.makeIdentity() }
        attempt { _ = try makeCrossOrigin() }
        attempt { _ = try makeProxies() }
        attempt { _ = try metrics.readKey() }
        attempt { try checkCode() }
        attempt { try checkDatabase() }
        return found
    }

    /// Rejects invalid addresses of databases.
    func checkDatabase() throws(ConfigurationError) {
        guard case .postgres(let url) = database else {
            guard replica == nil else {
                throw ConfigurationError(["replica: only a PostgreSQL database can have one"])
            }
            return
        }
        var faults: [String] = []
        if let mistake = PostgresTableStore.mistake(inAddress: url) {
            faults.append("database: \(mistake)")
        }
        if let fault = PostgresTableStore.fault(ofAddress: url) {
            faults.append("database: \(fault).")
        }
        if let mistake = replica.flatMap(PostgresTableStore.mistake) {
            faults.append("replica: \(mistake)")
        }
        guard faults.isEmpty else { throw ConfigurationError(faults) }
    }

    /// Whether only this machine can reach the server.
    var isLoopback: Bool {
        var address = in_addr()
        if inet_pton(AF_INET, host, &address) == 1 { return host.hasPrefix("127.") }
        return host == "localhost" || host == "::1"
    }

    /// Sets the host to the address of the passed sockets, which determines the machines that can reach the
    /// server.
    mutating func listens(on sockets: HandedSockets) {
        host = sockets.host
        port = sockets.port
    }

    func makeLog() -> ServerLog {
        let writer = LogWriter.standardError
        var created = ServerLog(
            level: ServerLog.Level(rawValue: log.level.rawValue) ?? .info,
            format: ServerLog.Format(rawValue: log.format.rawValue) ?? .text,
            requests: ServerLog.Level(rawValue: log.requests.rawValue) ?? .debug,
            slowMicroseconds: Int64(log.slow / .microseconds(1)),
            now: ServerEnvironment.live.now,
            sink: { _ in }
        )
        created.sink = { [created] line in
            let lost = writer.put(line)
            guard lost > 0 else { return }
            _ = writer.put(created.line(.warning, "log lines were lost", ["lines": "\(lost)"]))
        }
        return created
    }
}
