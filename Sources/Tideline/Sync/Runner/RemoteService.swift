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

    /// What the next request is written in.
    var dialect: ServerDialect { generation.dialect }

    /// A request before it is written in the words of a generation.
    struct Request: Sendable {
        var method: String
        var url: URL
        var headers: HTTPFields = [:]
        var body: [UInt8]?

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
        var fields = call.headers
        fields["ZUMO-API-VERSION"] = dialect.protocolVersion
        fields["Accept"] = "application/json"
        if call.body != nil { fields["Content-Type"] = "application/json" }
        let response = try await carry(
            TransportRequest(
                method: call.method,
                url: call.url,
                headers: fields,
                body: call.body,
                timeout: limits.requestTimeMax
            )
        )
        clock.hear(response.headers["Date"], at: environment.now())
        return (response, generation.hear(AnswerSigns(response), asked: dialect))
    }

    private func carry(_ request: TransportRequest) async throws -> TransportResponse {
        do {
            return try await transport.send(request)
        } catch let error as TransportError {
            throw error
        } catch let error as CancellationError {
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

    /// What a server of ours says is not there, where that is no row.
    var code: String? { status == 404 ? RowText.row(body, nil)?["code"]?.text : nil }

    /// How much of an error text is told: it is for people, and goes into durable errors.
    private static let problemMax = 1000

    /// `Retry-After` in seconds; a date is not read, the own delay serves then.
    var retryAfter: Duration? {
        headers["Retry-After"].flatMap { Int($0) }.map { .seconds(max(0, $0)) }
    }
}
