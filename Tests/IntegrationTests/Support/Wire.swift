// Wire: requests to tables as text, and their responses as JSON.

import Foundation
import Testing
import Tideline

struct Wire: Sendable {
    let endpoint: URL
    let transport: any Transport
    var isClassic = false

    /// Sends a request; `target` is a path with its query, already encoded, or an absolute URL.
    func send(
        _ method: String,
        _ target: String,
        _ body: String? = nil,
        headers: HTTPFields = [:],
        classic: Bool? = nil
    ) async throws -> TransportResponse {
        let text = target.hasPrefix("http") ? target : endpoint.absoluteString + target
        let url = try #require(URL(string: text))
        var fields = headers
        fields["ZUMO-API-VERSION"] = classic ?? isClassic ? "2.0.0" : "3.0.0"
        if body != nil { fields["Content-Type"] = "application/json" }
        return try await transport.send(
            TransportRequest(
                method: method,
                url: url,
                headers: fields,
                body: body.map { Array($0.utf8) },
                timeout: .seconds(20)
            )
        )
    }

    /// All rows of a table, including tombstones, from all pages.
    func allRows(_ table: String) async throws -> [[String: Any]] {
        var rows: [[String: Any]] = []
        var query = "__includeDeleted=true"
        while true {
            let answer = try await send("GET", "/tables/\(table)?\(query)")
            try #require(answer.status == 200)
            rows += answer.rows
            if isClassic {
                guard !answer.rows.isEmpty else { return rows }
                query = "__includeDeleted=true&$skip=\(rows.count)"
                continue
            }
            guard let next = answer.object["nextLink"] as? String else { return rows }
            query = next
        }
    }
}

extension TransportResponse {
    var json: Any? {
        try? JSONSerialization.jsonObject(with: Data(body), options: .fragmentsAllowed)
    }

    var object: [String: Any] { json as? [String: Any] ?? [:] }

    /// The rows of a list in either generation.
    var rows: [[String: Any]] {
        json as? [[String: Any]] ?? object["items"] as? [[String: Any]] ?? []
    }

    var ids: [String] { rows.compactMap { $0["id"] as? String } }
}
