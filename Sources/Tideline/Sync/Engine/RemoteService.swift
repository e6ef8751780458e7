// RemoteService: requests to tables.

import Foundation
import TidelineCore

/// A client of the server's tables that sends requests and returns the responses as values.
struct RemoteService: Sendable {
    let endpoint: TableEndpoint
    let transport: any Transport
    let environment: SyncEnvironment
    let limits: SyncLimits
    let generation: SharedGeneration
    /// The server's wall clock, according to its responses.
    let clock: ServerClock
    /// The installation id of the store, which the server's operators see.
    let installation: SharedInstallation
    /// Whether the server accepts compressed bodies.
    let coding: SharedCoding
    /// The calls that end when the client is suspended.
    let calls: OutsideCalls
    /// The signs that a response is from the endpoint's server.
    let signs: SharedSigns
    /// The wait that the server asked for.
    let busy: SharedBusyPeriod
    /// The tables, columns and permissions of the server.
    let schema: SharedSchema
    /// The value of `User-Agent`.
    let userAgent: String
    /// The app's version, together with Tideline's.
    let appVersion: String
    /// Whether `Retry-After` in a response applies to all requests.
    var heedsRetryAfter = true
    /// The tokens of the account that is signed in; nil if the app has no authentication.
    var tokens: TokenKeeper?
    /// The log; nil if the app has none.
    var log: (any SyncLog)?

    /// The dialect of the next request.
    var dialect: ServerDialect { generation.dialect }

    /// A request before it is written in a dialect.
    struct Request: Sendable {
        var method: String
        var url: URL
        var headers: HTTPFields = [:]
        var body: [UInt8]?
        /// Whether the body of an update contains its base version.
        var hasVersionInBody = false
        /// Whether the body may be sent to the server as gzip.
        var isCompressible = false

        /// Requests one page of a list.
        ///
        /// The page has `rows` rows if the server lets the client choose, and the list ends with a
        /// delta link if the server supports them.
        static func page(_ url: URL, rows: Int, tracksChanges: Bool = false) -> Request {
            let wish = tracksChanges ? "odata.track-changes, " : ""
            return Request(
                method: "GET",
                url: url,
                headers: ["Prefer": "\(wish)odata.maxpagesize=\(rows)"]
            )
        }
    }

    /// A response, and the dialect in which its request was sent.
    struct Answer: Sendable {
        var response: TransportResponse
        var dialect: ServerDialect
    }

    /// Sends a request, and resends it in the other dialect if the server belongs to another
    /// generation and did not execute the request.
    func send(
        _ make: @Sendable (ServerDialect) throws -> Request
    ) async throws -> Answer {
        var attempt = 1
        while true {
            let dialect = dialect
            let (response, isToRepeat) = try await once(try make(dialect), dialect)
            // Allows two retries: one if an earlier run determined the wrong generation, and one if
            // the server rejects the version.
            guard isToRepeat, attempt < 3 else {
                return Answer(response: response, dialect: dialect)
            }
            attempt += 1
        }
    }

    /// Sends a request as it is, and evaluates the response for later requests.
    ///
    /// - Returns: The response, and whether the request has to be sent again in the other dialect.
    func once(
        _ call: Request,
        _ dialect: ServerDialect
    ) async throws -> (TransportResponse, isToRepeat: Bool) {
        if let response = try await inBatch(call, dialect) { return (response, false) }
        if let answer = try await answerBefore(call, dialect) { return answer }
        return try await plainly(withConditionInURL(call), dialect)
    }

    /// Sends a request on its own, not in a batch.
    func plainly(
        _ call: Request,
        _ dialect: ServerDialect
    ) async throws -> (TransportResponse, isToRepeat: Bool) {
        var fields = call.headers
        fields["User-Agent"] = userAgent
        fields["ZUMO-API-VERSION"] = dialect.protocolVersion
        fields["Accept"] = "application/json"
        if call.body != nil { fields["Content-Type"] = "application/json" }
        // A cache may store responses even though the server forbids it.
        if call.method == "GET" { fields["Cache-Control"] = "no-cache" }
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
        clock.note(response.headers["Date"], at: environment.now())
        signs.learn(ServerSigns(of: response))
        schema.learn(response)
        note(response, sentAt: number)
        return (response, generation.note(AnswerSigns(response), asked: dialect))
    }

    /// Sends a request with the token of the account that is signed in.
    ///
    /// If the server rejects the token, the request is resent with a new token. This is safe
    /// because the server did not execute it.
    ///
    /// A 401 that is not proven to come from the server may come from a gateway that checks tokens.
    /// The client then requests one new token, and requests another one only after a different
    /// response. It never asks the user to sign in because of such a 401.
    func authorized<Response>(
        _ request: TransportRequest,
        _ dialect: ServerDialect,
        send: (TransportRequest) async throws -> Response,
        verdict: (Response) -> (status: Int, wantsSignIn: Bool)
    ) async throws -> Response {
        // Tokens and ids are sent only to the endpoint's origin (docs/sync.md, Accounts).
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
            // A proxy's response is not a reason to ask the user to sign in.
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

    /// Logs the destination of a request, without its query and its contents.
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
            note(request, "The server responded to a request.", "\(response.status)")
            return response
        } catch let error as TransportError {
            note(request, "A request received no response.", "\(error.code)")
            throw error
        } catch let error as CancellationError {
            throw error
        } catch let error as SyncError where error.code == .suspended {
            throw error
        } catch {
            // An app's own transport may throw any error. All of them mean that no response
            // arrived.
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
    /// Adds the token in the header field of the server's generation, or in both fields if the
    /// generation is not known.
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
    /// The row in the body: a JSON object with an `id`.
    ///
    /// If the object has no version, the ETag is used.
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

    /// The text of an error body, in the format of any server generation.
    var problem: String? {
        guard let row = RowText.row(body, nil) else { return nil }
        for name in ["error", "detail", "description", "message", "title"] {
            if let text = row[name]?.text { return String(text.prefix(Self.problemMax)) }
        }
        return nil
    }

    /// The code with which a Tideline server says why it did not execute a request, or what is
    /// missing other than a row.
    var code: String? {
        [400, 404, 409, 415, 424].contains(status) ? RowText.row(body, nil)?["code"]?.text : nil
    }

    /// The maximum length of an error text, which is shown to people and stored with errors.
    private static let problemMax = 1000

    /// The wait that `Retry-After` asks for; `serverTime` is used if the response has no `Date`.
    func retryAfter(at serverTime: Date) -> Duration? {
        headers["Retry-After"].flatMap {
            RetryAfter.wait($0, date: headers["Date"], serverTime: serverTime)
        }
    }
}
