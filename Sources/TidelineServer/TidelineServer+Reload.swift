// TidelineServer+Reload: reloads the settings that may change while a server runs.

import Synchronization
import TidelineCore
import TidelineServerCore
import TidelineServerSQLite
import TidelineTLS

extension TidelineServer {
    /// Reloads the settings that may change without a restart.
    ///
    /// These are the certificate and its key, the keys of tokens and their required claims, the operators, the
    /// key of the metrics, and the levels of the log.
    ///
    /// An invalid setting is not changed, and the log says why. Changes to the rest of the configuration take
    /// effect at the next start, which is logged as well. If the server is not running, the method does
    /// nothing.
    ///
    /// - Parameter read: Reads the configuration again; if it returns nil, the one that the server
    ///   was created with is used.
    public func reload(_ read: () throws -> ServerConfiguration? = { nil }) {
        let parts = state.withLock { state -> Running? in
            guard case .running(let parts) = state else { return nil }
            return parts
        }
        guard var parts else { return }
        let asked: ServerConfiguration
        do {
            asked = try read() ?? configuration
        } catch {
            return keep("the configuration cannot be reloaded and stays unchanged", error)
        }
        var inForce = parts.configuration
        inForce.log.level = asked.log.level
        inForce.log.requests = asked.log.requests
        log.level = ServerLog.Level(rawValue: asked.log.level.rawValue) ?? .info
        log.requests = ServerLog.Level(rawValue: asked.log.requests.rawValue) ?? .debug
        reloadCertificate(asked, parts, &inForce)
        reloadUsers(asked, &parts, &inForce)
        let keys = parts.keys
        parts.handler.service.settings.dashboard?.show(inForce.settingsInForce)
        state.withLock { state in
            guard case .running(var parts) = state else { return }
            parts.configuration = inForce
            parts.keys = keys
            state = .running(parts)
        }
        logKeysForRestart(asked, inForce)
        log.write(.info, "configuration reloaded")
    }

    private func reloadCertificate(
        _ asked: ServerConfiguration,
        _ parts: Running,
        _ inForce: inout ServerConfiguration
    ) {
        guard let tls = parts.tls, let files = asked.tls else { return }
        do {
            tls.become(try files.makeIdentity())
            inForce.tls = files
            logExpiry(of: tls)
        } catch {
            keep("the certificate cannot be reloaded and stays unchanged", error)
        }
    }

    private func reloadUsers(
        _ asked: ServerConfiguration,
        _ parts: inout Running,
        _ inForce: inout ServerConfiguration
    ) {
        let settings = parts.handler.service.settings
        if let authenticator = parts.authenticator, let authentication = asked.authentication {
            do {
                let keys = try TokenKeys(authentication, after: parts.keys, log: log)
                authenticator.become(keys.makeAuthenticator())
                parts.keys = keys
                if authentication.keyAddress != nil { Task { await authenticator.renew() } }
                settings.operators.become(authentication.operators)
                inForce.authentication = authentication
                log.write(.info, "token keys reloaded")
            } catch {
                keep("the token keys cannot be reloaded and stay unchanged", error)
            }
        }
        do {
            settings.scrapeKey.become(try asked.metrics.readKey())
            inForce.metrics = asked.metrics
        } catch {
            keep("the metrics key cannot be reloaded and stays unchanged", error)
        }
    }

    /// Logs the keys that have changed and take effect only at the next start.
    private func logKeysForRestart(_ asked: ServerConfiguration, _ inForce: ServerConfiguration) {
        var asked = asked
        if asked.host == configuration.host, asked.port == configuration.port {
            // Passed sockets determine the address.
            (asked.host, asked.port) = (inForce.host, inForce.port)
        }
        let settings = inForce.settingsInForce
        var others = asked.settingsInForce.filter { !settings.contains($0) }.map(\.key)
        if asked.tables != inForce.tables { others.append("tables") }
        guard !others.isEmpty else { return }
        log.write(
            .warning,
            "keys that take effect after a restart",
            ["keys": others.joined(separator: ", ")]
        )
    }

    private func keep(_ what: StaticString, _ error: any Error) {
        log.write(.warning, what, ["cause": "\(error)"])
    }

    /// Logs the expiry of the certificate, as a warning if it is soon.
    func logExpiry(of tls: TLSIdentity) {
        let end = tls.context.validUntil
        let left = end - ServerEnvironment.live.now() / 1_000_000
        let until = Timestamp(microseconds: end * 1_000_000).text
        if left <= 0 {
            log.write(.warning, "the certificate expired", ["until": until])
        } else {
            let isSoon = left < Self.warningSeconds
            log.write(isSoon ? .warning : .info, "the certificate is valid", ["until": until])
        }
    }

    /// The time before the expiry when a warning is logged: two weeks, because tools renew certificates a month
    /// before they expire.
    private static let warningSeconds: Int64 = 14 * 86_400
}

extension TLSIdentity {
    /// When the certificate expires, in seconds since 1970; nil if that is unknown.
    var end: Int? { context.validUntil > 0 ? Int(context.validUntil) : nil }
}

extension ServerConfiguration {
    /// Measures memory, processor time and descriptors, and the disk of the database's file.
    var processUse: @Sendable () -> ProcessUse {
        var file: String?
        if case .sqlite(let path) = database { file = path }
        return { [file] in ProcessUse.now(disk: file) }
    }

    /// Returns when the last backup of a file was made; backups of PostgreSQL are unknown here.
    var lastBackup: @Sendable () -> Int? {
        guard case .sqlite(let path) = database else { return { nil } }
        return { BackupMarker.time(of: path) }
    }
}
