// RemoteService: requests to the server's tables, and their answers as values.

import Foundation
import TidelineCore

struct RemoteService: Sendable {
    let endpoint: TableEndpoint
    let transport: any Transport
    let environment: SyncEnvironment
    let limits: SyncLimits
    let generation: SharedGeneration
    /// The server's, as its answers tell it.
    let clock: ServerClock
    /// Which store it is, for the server's operators.
    let installation: SharedInstallation
    /// Whether the server takes compressed bodies.
    let coding: SharedCoding
    /// Ends each request when the client is suspended.
    let calls: OutsideCalls
    /// The signs by which the server of the endpoint proves itself.
    let signs: SharedSigns
    /// The wait that the server asked for.
    let busy: SharedBusyPeriod
    /// Which tables, columns and permissions the server has.
    let schema: SharedSchema
    /// The value of `User-Agent`.
    let userAgent: String
    /// The version of the app, with that of Tideline.
    let appVersion: String
    /// Whether `Retry-After` in an answer counts as said of all requests.
    var heedsRetryAfter = true
    /// Who is signed in; nil where the app has no authentication.
    var tokens: TokenKeeper?
    /// Is told of each request; nil where nobody listens.
    var log: (any SyncLog)?

    /// What the next request is written in.
    var dialect: ServerDialect { generation.dialect }

    /// A request before it is written in the words of a generation.
    struct Request: Sendable {
        var method: String
        var url: URL
        var headers: HTTPFields = [:]
        var body: [UInt8]?
        /// Whether the body of an update has the version that it is based on.
        var hasVersionInBody = false
        /// Whether a server may take the body as gzip.
        var isCompressible = false

        /// One page of a list, of so many rows where the server lets the client choose, and a link
        /// to what changes after the list where the server gives one.
        static func page(_ url: URL, rows: Int, tracksChanges: Bool = false) -> Request {
            let wish = tracksChanges ? "odata.track-changes, " : ""
            return Request(
                method: "GET",
                url: url,
                headers: ["Prefer": "\(wish)odata.maxpagesize=\(rows)"]
            )
        }
    }

    /// An answer, and what its request was written in.
    struct Answer: Sendable {
        var response: TransportResponse
        var dialect: ServerDialect
    }

    /// Sends a request, and again in the other dialect when the server turns out to be of another
    /// generation and did nothing with it.
    func send(
        _ make: @Sendable (ServerDialect) throws -> Request
    ) async throws -> Answer {
        var attempt = 1
        while true {
            let dialect = dialect
            let (response, isToRepeat) = try await once(try make(dialect), dialect)
            // Once for what was remembered wrongly, once for the version that is refused.
            guard isToRepeat, attempt < 3 else {
                return Answer(response: response, dialect: dialect)
            }
            attempt += 1
        }
    }

    /// Sends a request as it is, and learns from the answer.
    ///
    /// - Returns: The answer, and whether the request is to be asked anew in the other dialect.
    func once(
        _ call: Request,
        _ dialect: ServerDialect
    ) async throws -> (TransportResponse, isToRepeat: Bool) {
        if let response = try await inBatch(call, dialect) { return (response, false) }
        if let answer = try await answerBefore(call, dialect) { return answer }
        return try await plainly(withConditionInURL(call), dialect)
    }

    /// Sends a request as an HTTP request of its own.
    func plainly(
        _ call: Request,
        _ dialect: ServerDialect
    ) async throws -> (TransportResponse, isToRepeat: Bool) {
        var fields = call.headers
        fields["User-Agent"] = userAgent
        fields["ZUMO-API-VERSION"] = dialect.protocolVersion
        fields["Accept"] = "application/json"
        if call.body != nil { fields["Content-Type"] = "application/json" }
        let request = TransportRequest(
            method: call.method,
            url: call.url,
            headers: fields,
            body: call.body,
            timeout: limits.requestTimeMax
        )
        let bytesMin = call.isCompressible ? limits.compressedBatchBytesMin : nil
        let number = busy.number
        let response = try await coding.send(request, fromBytes: bytesMin) {
            try await authorized($0, dialect, send: carry) {
                ($0.status, AnswerProof.wantsSignIn($0))
            }
        }
        clock.hear(response.headers["Date"], at: environment.now())
        signs.learn(ServerSigns(of: response))
        schema.learn(response)
        hear(response, sentAt: number)
        return (response, generation.hear(AnswerSigns(response), asked: dialect))
    }

    /// Sends a request with the token of the account that is signed in, and once more with a new
    /// token where the server refuses that one: of a refused request nothing was done.
    ///
    /// A 401 that does not prove to be the server's may be that of a gateway which checks tokens: it
    /// is worth one new token, until another answer comes. It never asks for a sign-in.
    func authorized<Response>(
        _ request: TransportRequest,
        _ dialect: ServerDialect,
        send: (TransportRequest) async throws -> Response,
        verdict: (Response) -> (status: Int, wantsSignIn: Bool)
    ) async throws -> Response {
        // Tokens and ids go to the endpoint's origin only (CONTRACT.md, section 2).
        guard endpoint.isOrigin(of: request.url) else { return try await send(request) }
        var request = request
        if let id = installation.id {
            request.headers["X-ZUMO-INSTALLATION-ID"] = id
            request.headers["X-ZUMO-VERSION"] = ClientVersion.text
        }
        guard let tokens, let credentials = try await tokens.credentials() else {
            return try await send(request)
        }
        let response = try await send(request.signed(credentials, dialect, generation))
        let (status, wantsSignIn) = verdict(response)
        guard status == 401 else {
            signs.note(isRenewedInVain: false)
            return response
        }
        guard wantsSignIn || signs.mayRenew else { return response }
        let renewed: Credentials?
        do {
            renewed = try await tokens.renewed(after: credentials)
        } catch let error as SyncError where !wantsSignIn && error.code == .unauthorized {
            // A page of something in between is no reason to ask for a sign-in.
            signs.note(isRenewedInVain: true)
            return response
        }
        guard let renewed, renewed.account == credentials.account,
            renewed.token != credentials.token
        else {
            if !wantsSignIn { signs.note(isRenewedInVain: true) }
            return response
        }
        let second = try await send(request.signed(renewed, dialect, generation))
        let (again, proven) = verdict(second)
        signs.note(isRenewedInVain: again == 401 && !proven)
        return second
    }

    /// Tells the log of a request: where it went, but neither its query nor anything in it.
    private func note(_ request: TransportRequest, _ message: StaticString, _ outcome: String) {
        guard let log else { return }
        let metadata = [
            "method": request.method, "path": request.url.path(), "outcome": outcome,
            "bytes": String(request.body?.count ?? 0),
        ]
        log.log(level: .trace, message: message, metadata: metadata)
    }

    private func carry(_ request: TransportRequest) async throws -> TransportResponse {
        do {
            let response = try await calls.run { [transport] in try await transport.send(request) }
            note(request, "The server answered a request.", "\(response.status)")
            return response
        } catch let error as TransportError {
            note(request, "A request had no answer.", "\(error.code)")
            throw error
        } catch let error as CancellationError {
            throw error
        } catch let error as SyncError where error.code == .suspended {
            throw error
        } catch {
            // An app's own transport may throw what it likes: no answer came all the same.
            throw TransportError(
                .failed,
                "The transport failed.",
                outcomeIsUnknown: true,
                cause: error
            )
        }
    }
}

extension TransportRequest {
    /// With the token in the header that the server's generation reads; in both where it is not
    /// known.
    fileprivate func signed(
        _ credentials: Credentials,
        _ dialect: ServerDialect,
        _ generation: SharedGeneration
    ) -> TransportRequest {
        var request = self
        if dialect == .datasync || !generation.isKnown {
            request.headers["Authorization"] = "Bearer " + credentials.token
        }
        if dialect == .classic || !generation.isKnown {
            request.headers["X-ZUMO-AUTH"] = credentials.token
        }
        return request
    }
}

extension TransportResponse {
    /// The row in the body: a JSON object with an `id`; its version comes from the ETag at need.
    func item(_ schema: TableSchema?) -> Row? {
        guard var row = RowText.row(body, schema), row["id"]?.text?.isEmpty == false else {
            return nil
        }
        if row.version == nil, let tag = headers["ETag"], !tag.hasPrefix("W/") {
            let inner = tag.trimmingCharacters(in: CharacterSet(charactersIn: "\""))
            row["version"] = .string(inner.replacingOccurrences(of: "\\\"", with: "\""))
        }
        return row
    }

    /// The text of an error body, in the forms of all generations.
    var problem: String? {
        guard let row = RowText.row(body, nil) else { return nil }
        for name in ["error", "detail", "description", "message", "title"] {
            if let text = row[name]?.text { return String(text.prefix(Self.problemMax)) }
        }
        return nil
    }

    /// What a server of ours says is not there, where that is no row, or why a request was not done.
    var code: String? {
        [400, 404, 424].contains(status) ? RowText.row(body, nil)?["code"]?.text : nil
    }

    /// How much of an error text is told: it is for people, and goes into durable errors.
    private static let problemMax = 1000

    /// What `Retry-After` asks for; `serverTime` counts if the answer has no `Date`.
    func retryAfter(at serverTime: Date) -> Duration? {
        headers["Retry-After"].flatMap {
            RetryAfter.wait($0, date: headers["Date"], serverTime: serverTime)
        }
    }
}
