// TidelineServer+Reload: what may change while a server runs.

import Synchronization
import TidelineCore
import TidelineServerCore
import TidelineTLS

extension TidelineServer {
    /// Takes over what may change without a restart: the files of the certificate and of the keys are
    /// read anew, and the levels of the log are those that `read` gives.
    ///
    /// What cannot be used stays as it was, and a line of the log says why. Everything else of the
    /// configuration is looked at by the next start only. Does nothing while the server does not run.
    ///
    /// - Parameter read: Reads the configuration anew; nil from it is that which the server was made
    ///   with.
    public func reload(_ read: () throws -> ServerConfiguration? = { nil }) {
        let parts = state.withLock { state -> Running? in
            guard case .running(let parts) = state else { return nil }
            return parts
        }
        guard let parts else { return }
        let configuration: ServerConfiguration
        do {
            configuration = try read() ?? self.configuration
        } catch {
            return keep("the configuration stays as it was", error)
        }
        log.level = ServerLog.Level(rawValue: configuration.log.level.rawValue) ?? .info
        log.requests = ServerLog.Level(rawValue: configuration.log.requests.rawValue) ?? .debug
        if let tls = parts.tls {
            do {
                try tls.reload()
                tell(tls)
            } catch {
                keep("the certificate stays as it was", error)
            }
        }
        if let authenticator = parts.authenticator, let asked = configuration.authentication {
            do {
                authenticator.become(try asked.makeAuthenticator())
                log.write(.info, "the keys of tokens were read")
            } catch {
                keep("the keys of tokens stay as they were", error)
            }
        }
        log.write(.info, "read anew")
    }

    private func keep(_ what: StaticString, _ error: any Error) {
        log.write(.warning, what, ["cause": "\(error)"])
    }

    /// Until when the certificate holds; as a warning when that is soon.
    func tell(_ tls: TLSIdentity) {
        let end = tls.context.validUntil
        let left = end - ServerEnvironment.live.now() / 1_000_000
        let until = Timestamp(microseconds: end * 1_000_000).text
        if left <= 0 {
            log.write(.warning, "the certificate has ended", ["until": until])
        } else {
            let isSoon = left < Self.warningSeconds
            log.write(isSoon ? .warning : .info, "the certificate holds", ["until": until])
        }
    }

    /// Two weeks: what renews certificates does so a month before their end.
    private static let warningSeconds: Int64 = 14 * 86_400
}
