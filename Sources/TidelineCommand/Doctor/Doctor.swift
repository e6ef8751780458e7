// Doctor: the command `doctor`.
//
// It only reads. Its findings are sentences that say what to do.

import Foundation
import Tideline
import TidelineCore
import TidelineServer
import TidelineServerCore

/// A check that sends a server the requests of a device, and reports problems that prevent syncing.
struct Doctor: Sendable {
    let server: URL
    let token: String?
    let store: String?
    /// The file with the schema document of an app's models.
    let models: String?
    let authority: String?

    /// The clock difference in seconds from which a server rejects idempotency keys (docs/protocol.md).
    private static let clockFault = 300.0
    private static let clockWarning = 60.0
    private static let tries = 3
    private static let slowMilliseconds: Int64 = 1000

    /// The current time, in microseconds since 1970.
    static var now: Int64 { ServerEnvironment.live.now() }

    func findings() async -> Findings {
        var findings = Findings()
        let transport = CurlTransport(certificateAuthorities: authority)
        let asker = Asker(server: server, token: token, transport: transport)
        let isReached = await reach(asker, &findings)
        // An expired certificate may be why the server cannot be reached.
        await checkCertificate(&findings)
        guard isReached else { return findings }
        await checkReadiness(asker, &findings)
        await checkToken(asker, &findings)
        await checkModels(&findings)
        let answer = try? await asker.get("/$admin/overview", signed: true)
        let tables = answer.flatMap { $0.status == 200 ? ServerTables($0.body) : nil }
        for warning in tables?.warnings ?? [] { findings.add("watch", .warning, warning) }
        var report: Report?
        if let store {
            do {
                let found = try FileInspection.report(of: store)
                await checkStore(found, asker, tables, &findings)
                checkStoredDifferences(found, &findings)
                report = found
            } catch {
                findings.add("store", .fault, "\(error)")
            }
        }
        await checkTableClocks(tables, report, asker, &findings)
        let names =
            tables.map { $0.tables.values.map(\.name).sorted() }
            ?? report?.reports("tables").compactMap { $0.string("name") } ?? []
        await checkConditions(names, asker, &findings)
        if let tables {
            checkIndexes(tables, report, &findings)
        } else if report != nil {
            findings.add(
                "indexes",
                .fine,
                "Not checked: the server reports indexes only to operators."
            )
        }
        return findings
    }

    // MARK: - Server

    /// Returns whether the server answers; reports the round-trip time and the wall clock.
    private func reach(_ asker: Asker, _ findings: inout Findings) async -> Bool {
        var best = Int64.max
        var answer: TransportResponse?
        for _ in 0..<Self.tries {
            let start = Self.now
            do {
                answer = try await asker.get("/health", signed: false)
            } catch {
                let scheme = await speaksOtherScheme(asker) ?? ""
                findings.add(
                    "reach",
                    .fault,
                    "\(server) does not respond: \(error)" + scheme
                )
                return false
            }
            best = min(best, Self.now - start)
        }
        guard let answer, answer.status == 200, asker.isHealth(answer) else {
            let scheme = await speaksOtherScheme(asker) ?? ""
            let status = answer?.status ?? 0
            let what = status == 200 ? "a body that is not from a Tideline server" : "\(status)"
            findings.add(
                "reach",
                .fault,
                "\(server)/health responds with \(what). Check that this is the address of a Tideline "
                    + "server, and that a proxy in front of it forwards /health."
                    + (answer.map { asker.said($0) } ?? "") + scheme
            )
            return false
        }
        let milliseconds = max(0, best) / 1000 + 1
        findings.add(
            "reach",
            milliseconds > Self.slowMilliseconds ? .warning : .fine,
            milliseconds > Self.slowMilliseconds
                ? "\(server) takes \(milliseconds) ms for the smallest response (best of \(Self.tries)): "
                    + "devices wait that long for each request. Check the network and the server's load."
                : "\(server) responds within \(milliseconds) ms."
        )
        if server.scheme == "http", !["127.0.0.1", "localhost", "::1"].contains(server.host ?? "") {
            findings.add(
                "encryption",
                .warning,
                "The address is plain http: tokens and rows can be read in transit. Use https."
            )
        }
        checkClock(answer, &findings)
        return true
    }

    /// Returns advice if the port speaks TLS but the address is http, or the reverse; nil if the
    /// schemes match.
    private func speaksOtherScheme(_ asker: Asker) async -> String? {
        guard var parts = URLComponents(url: server, resolvingAgainstBaseURL: false),
            let host = server.host
        else { return nil }
        let isPlain = server.scheme == "http"
        let usual = isPlain ? 80 : 443
        let port = server.port ?? usual
        parts.scheme = isPlain ? "https" : "http"
        parts.port = port
        guard let other = parts.url else { return nil }
        if isPlain {
            let bare = host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host
            let end = await withCheckedContinuation { continuation in
                Thread.detachNewThread {
                    continuation.resume(returning: ShownCertificate.end(host: bare, port: port))
                }
            }
            return end.map { _ in " The port requires TLS. Use \(other)." }
        }
        let asker = Asker(server: other, token: nil, transport: asker.transport)
        let answer = try? await asker.get("/health", signed: false)
        return answer.map { _ in
            " The port expects plain HTTP. Use \(other), or configure a certificate (tls)."
        }
    }

    private func checkClock(_ answer: TransportResponse, _ findings: inout Findings) {
        guard let text = answer.headers["Date"], let sent = HTTPDate.seconds(text) else {
            return findings.add("clock", .warning, "The server's responses have no Date.")
        }
        let apart = abs(Double(Self.now) / 1_000_000 - Double(sent))
        let seconds = Int(apart)
        switch apart {
        case Self.clockFault...:
            findings.add(
                "clock",
                .fault,
                "The clocks differ by \(seconds) s. Beyond 300 s the server rejects tokens and "
                    + "idempotency keys. Correct the wrong clock, for example with NTP."
            )
        case Self.clockWarning...:
            findings.add(
                "clock",
                .warning,
                "The clocks differ by \(seconds) s. Correct the wrong one."
            )
        default: findings.add("clock", .fine, "The clocks differ by \(seconds) s.")
        }
    }

    private func checkReadiness(_ asker: Asker, _ findings: inout Findings) async {
        do {
            let answer = try await asker.get("/health/ready", signed: false)
            if answer.status == 200 {
                findings.add("ready", .fine, "The server accepts writes.")
            } else {
                let reason = asker.reason(answer)
                findings.add("ready", .fault, "The server does not accept writes: \(reason)")
            }
        } catch {
            findings.add("ready", .fault, "Cannot check whether the server is ready: \(error)")
        }
    }

    /// Reads a table that does not exist: a bad token is rejected before the table is looked up.
    private func checkToken(_ asker: Asker, _ findings: inout Findings) async {
        guard token != nil else { return }
        do {
            let answer = try await asker.get("/tables/tideline-doctor?$top=1", signed: true)
            if answer.status == 401 {
                let reason = asker.reason(answer)
                findings.add("token", .fault, "The server rejects the token: \(reason)")
            } else {
                findings.add("token", .fine, "The server does not reject the token.")
            }
        } catch {
            findings.add("token", .fault, "The token cannot be checked: \(error)")
        }
    }

    // MARK: - Store of a device

    private func checkStore(
        _ report: Report,
        _ asker: Asker,
        _ tables: ServerTables?,
        _ findings: inout Findings
    ) async {
        guard report["kind"] == .text("store") else {
            return findings.add("store", .fault, "The file is not the store of a device.")
        }
        let (queued, parked) = (report.integer("queued"), report.integer("errorCount"))
        findings.add("queue", .fine, "\(queued) operations are pending.")
        if parked > 0 {
            findings.add(
                "errors",
                .warning,
                "\(parked) operations were rejected and wait for the app. Run 'tideline inspect'."
            )
        }
        var local: Set<String> = []
        if case .texts(let names)? = report["local"] { local = Set(names) }
        for table in report.reports("tables") {
            guard let name = table.string("name") else { continue }
            if local.contains(name) {
                findings.add("table \(name)", .fine, "It stays on the device ('isLocalOnly').")
                continue
            }
            let cursors = report.reports("cursors").filter { $0.string("table") == name }
            guard let path = await checkTable(name, cursors, asker, &findings) else { continue }
            await checkColumns(table, local, path, asker, tables, &findings)
        }
    }

    /// Checks a table of the store; returns its path segment if the server serves it.
    private func checkTable(
        _ name: String,
        _ cursors: [Report],
        _ asker: Asker,
        _ findings: inout Findings
    ) async -> String? {
        let place = "table \(name)"
        let allowed = CharacterSet.urlPathAllowed.subtracting(CharacterSet(charactersIn: "/"))
        guard let path = name.addingPercentEncoding(withAllowedCharacters: allowed) else {
            return nil
        }
        let answer: TransportResponse
        do {
            answer = try await asker.get("/tables/\(path)?$top=1", signed: true)
        } catch {
            findings.add(place, .fault, "The request for it failed: \(error)")
            return nil
        }
        guard answer.status == 200 else {
            findings.add(place, .fault, Self.rejection(answer, asker))
            return nil
        }
        let epoch = answer.headers["Tideline-Epoch"]
        let others = cursors.filter { $0.string("epoch") != nil && $0.string("epoch") != epoch }
        if others.isEmpty {
            findings.add(
                place,
                .fine,
                "The server serves it, and the device has cursors of \(cursors.count) queries."
            )
        } else {
            findings.add(
                place,
                .warning,
                "The server was restored or replaced since the last pull. The next pull reads everything "
                    + "again, and the queue stays."
            )
        }
        return path
    }

    private static func rejection(_ answer: TransportResponse, _ asker: Asker) -> String {
        switch answer.status {
        case 401: "It requires a token. Pass one with --token." + asker.said(answer)
        case 403: "This user may not read its rows. Check its permissions." + asker.said(answer)
        case 404:
            "The server has no such table. Declare it in the server's configuration."
                + asker.said(answer)
        default: "The server responds with \(answer.status): \(asker.reason(answer))"
        }
    }
}

/// A sender of the doctor's requests.
struct Asker: Sendable {
    let server: URL
    let token: String?
    let transport: CurlTransport

    func get(
        _ path: String,
        signed: Bool,
        headers: HTTPFields = [:]
    ) async throws -> TransportResponse {
        let base = server.absoluteString
        let text = (base.hasSuffix("/") ? String(base.dropLast()) : base) + path
        guard let url = URL(string: text) else { throw UsageError("'\(text)' is not a valid URL.") }
        var request = TransportRequest(
            method: "GET",
            url: url,
            headers: headers,
            timeout: .seconds(15)
        )
        request.headers["User-Agent"] = UserAgent.text(appName: "tideline doctor")
        request.headers["ZUMO-API-VERSION"] = "3.0.0"
        if signed, let token { request.headers["Authorization"] = "Bearer " + token }
        return try await transport.send(request)
    }

    /// Whether a response comes from `/health` of a Tideline server.
    func isHealth(_ answer: TransportResponse) -> Bool {
        let object = try? JSONSerialization.jsonObject(with: Data(answer.body))
        return (object as? [String: Any])?["status"] as? String == "ok"
    }

    /// Returns the server's reason for a rejection.
    func reason(_ answer: TransportResponse) -> String {
        let data = Data(answer.body)
        let object = (try? JSONSerialization.jsonObject(with: data)) as? [String: Any]
        let reason = ["error", "detail", "title"].lazy.compactMap { object?[$0] as? String }.first
        return reason ?? "status \(answer.status)."
    }

    /// Returns a sentence with the server's reason; empty if there is none.
    func said(_ answer: TransportResponse) -> String {
        let reason = reason(answer)
        return reason == "status \(answer.status)." ? "" : " The server says: \(reason)"
    }
}

extension Report {
    func integer(_ name: String) -> Int64 {
        if case .integer(let number)? = self[name] { number } else { 0 }
    }

    func string(_ name: String) -> String? {
        if case .text(let text)? = self[name] { text } else { nil }
    }

    func reports(_ name: String) -> [Report] {
        if case .list(let reports)? = self[name] { reports } else { [] }
    }
}
