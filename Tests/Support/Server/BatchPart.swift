// BatchPart: one request of a batch, and the parts of a batch response that tests check.

import Foundation
package import TidelineCore
package import TidelineServerCore

/// One request of a batch, as JSON.
package struct BatchPart: Sendable {
    package var members: [(String, String)]

    package init(
        _ id: String,
        _ method: String,
        _ url: String,
        _ body: String? = nil,
        group: String? = nil,
        dependsOn: [String] = [],
        headers: [String: String] = [:]
    ) {
        members = [("id", Self.text(id)), ("method", Self.text(method)), ("url", Self.text(url))]
        if let body { members.append(("body", body)) }
        if let group { members.append(("atomicityGroup", Self.text(group))) }
        if !dependsOn.isEmpty { members.append(("dependsOn", Self.json(dependsOn))) }
        if !headers.isEmpty { members.append(("headers", Self.json(headers))) }
    }

    private static func text(_ text: String) -> String { json(text) }

    private static func json(_ value: some Encodable) -> String {
        String(decoding: (try? JSONEncoder().encode(value)) ?? Data(), as: UTF8.self)
    }

    package var json: String {
        "{" + members.map { "\"\($0)\":\($1)" }.joined(separator: ",") + "}"
    }
}

extension TestServer {
    package func batch(
        _ parts: [BatchPart],
        continuing: Bool = false,
        headers: HTTPFields = [:]
    ) async -> ServerResponse {
        var headers = headers
        if continuing { headers.append("Prefer", "continue-on-error") }
        let text = "{\"requests\":[" + parts.map(\.json).joined(separator: ",") + "]}"
        return await send("POST", "/$batch", text, headers: headers)
    }
}

extension ServerResponse {
    package var parts: [[String: Any]] { row["responses"] as? [[String: Any]] ?? [] }

    package var partStatuses: [Int] { parts.compactMap { $0["status"] as? Int } }

    package func partBody(_ index: Int) -> [String: Any] {
        parts[index]["body"] as? [String: Any] ?? [:]
    }

    package func partHeaders(_ index: Int) -> [String: String] {
        parts[index]["headers"] as? [String: String] ?? [:]
    }

    /// The codes of the problems, nil for a response without one.
    package var partCodes: [String?] { parts.indices.map { partBody($0)["code"] as? String } }
}
