// RemoteService: requests to the server's tables, and their answers as values.

import Foundation
import TidelineCore

struct RemoteService: Sendable {
    let endpoint: TableEndpoint
    let transport: any Transport
    let environment: SyncEnvironment
    let limits: SyncLimits

    /// The generation that the client speaks: envelopes, 410 for deleted rows (PROTOCOL.md).
    static let protocolVersion = "3.0.0"

    func send(
        _ method: String,
        _ url: URL,
        headers: HTTPFields = [:],
        body: [UInt8]? = nil
    ) async throws -> TransportResponse {
        var fields = headers
        fields["ZUMO-API-VERSION"] = Self.protocolVersion
        fields["Accept"] = "application/json"
        if body != nil { fields["Content-Type"] = "application/json" }
        let request = TransportRequest(
            method: method,
            url: url,
            headers: fields,
            body: body,
            timeout: limits.requestTimeMax
        )
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

    /// One page of a list, of so many rows where the server lets the client choose, and a link to
    /// what changes after the list where the server gives one.
    func page(
        _ url: URL,
        rows: Int,
        tracksChanges: Bool = false
    ) async throws -> TransportResponse {
        let wish = tracksChanges ? "odata.track-changes, " : ""
        return try await send("GET", url, headers: ["Prefer": "\(wish)odata.maxpagesize=\(rows)"])
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
