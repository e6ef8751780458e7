// RecordedCall: a request to a simulation's server with its response; a batch is recorded as
// several calls.

import Foundation
import Tideline
import TidelineCore

/// A request to a simulation's server with its response.
struct RecordedCall: Sendable {
    /// The columns of a row that a simulation checks.
    struct Item: Sendable {
        var id: String
        var text: String?
        var rank: Int?
        /// The bytes of the version; they increase with each version.
        var version: [UInt8]

        /// The state in the two forms in which records name it: the version, and the time of the
        /// version in milliseconds since 1970.
        var states: [String] {
            guard version.count == 8 else { return [] }
            let micros = version.reduce(Int64(0)) { $0 << 8 | Int64($1) }
            return [Data(version).base64EncodedString(), "\(micros / 1000)"]
        }
    }

    var method: String
    /// The path with its query.
    var target: String
    var ifMatch: String?
    var body: [UInt8]
    var status: Int
    /// The atomic group of the request in a batch.
    var group: String?
    /// The ETag of the response.
    var tag: String?
    var item: Item?
    /// The error code of the response.
    var code: String?

    /// Whether the request changed a row on the server.
    var isChange: Bool { method != "GET" && (200..<300).contains(status) }

    /// Whether a server fault rejected the request, which may succeed when it is resent.
    var isRejectedByFault: Bool {
        method != "GET" && ([403, 500].contains(status) || code == "noSuchTable")
    }

    /// The row in the body of the request.
    var sentItem: Item? { Self.item(body) }

    /// The bytes of the version in `If-Match`.
    var askedVersion: [UInt8]? {
        let text = (ifMatch ?? "").filter { $0 != "\"" }
        return text.isEmpty ? nil : Data(base64Encoded: text).map { Array($0) }
    }

    /// The last segment of the path.
    var itemID: String {
        let path = target.prefix { $0 != "?" }
        return path.split(separator: "/").last.map(String.init) ?? ""
    }

    static func calls(_ request: TransportRequest, _ response: TransportResponse) -> [RecordedCall]
    {
        if let calls = batch(request, response) { return calls }
        let query = request.url.query().map { "?" + withoutToken($0) } ?? ""
        return [
            RecordedCall(
                method: request.method,
                target: request.url.path() + query,
                ifMatch: request.headers["If-Match"],
                body: request.body ?? [],
                status: response.status,
                tag: response.headers["ETag"],
                item: request.method == "GET" ? nil : item(response.body),
                code: code(response.status, response.body)
            )
        ]
    }

    /// Removes the delta token, because it contains the database's epoch, which is random.
    private static func withoutToken(_ query: String) -> String {
        guard let token = query.firstRange(of: "deltatoken=") else { return query }
        return String(query[..<token.upperBound])
            + String(query[token.upperBound...].drop { $0 != "&" })
    }

    /// Returns the calls of a batch; nil for any other request.
    private static func batch(
        _ request: TransportRequest,
        _ response: TransportResponse
    ) -> [RecordedCall]? {
        guard request.url.path().hasSuffix("/$batch"),
            let requests = request.body.flatMap({ parts($0, "requests") }),
            let responses = parts(response.body, "responses")
        else { return nil }
        var answers: [String: [JSONPieces.Member]] = [:]
        for answer in responses { answers[text(answer, "id")] = answer }
        return requests.compactMap { request in
            guard let answer = answers[text(request, "id")] else { return nil }
            return RecordedCall(
                method: text(request, "method"),
                target: text(request, "url"),
                ifMatch: headers(request)["If-Match"],
                body: request["body"] ?? [],
                status: number(answer, "status") ?? 0,
                group: request["atomicityGroup"].flatMap(JSONPieces.text),
                tag: headers(answer)["ETag"],
                item: answer["body"].flatMap(item),
                code: code(number(answer, "status") ?? 0, answer["body"])
            )
        }
    }

    /// Returns the members of each object in an array of a batch.
    private static func parts(_ body: [UInt8], _ name: String) -> [[JSONPieces.Member]]? {
        JSONPieces.members(body)?[name].flatMap(JSONPieces.elements)?.map {
            JSONPieces.members($0) ?? []
        }
    }

    /// Returns the header fields of a part; their names are case-insensitive.
    private static func headers(_ part: [JSONPieces.Member]) -> HTTPFields {
        var fields = HTTPFields()
        for member in part["headers"].flatMap(JSONPieces.members) ?? [] {
            fields[member.name] = JSONPieces.text(member.value)
        }
        return fields
    }

    private static func text(_ part: [JSONPieces.Member], _ name: String) -> String {
        part[name].flatMap(JSONPieces.text) ?? ""
    }

    private static func number(_ part: [JSONPieces.Member], _ name: String) -> Int? {
        part[name].flatMap { Double(String(decoding: $0, as: UTF8.self)) }.flatMap {
            Int(exactly: $0)
        }
    }

    /// Returns the `code` in the body of an error.
    private static func code(_ status: Int, _ body: [UInt8]?) -> String? {
        guard status >= 400 else { return nil }
        return body.flatMap(JSONPieces.members)?["code"].flatMap(JSONPieces.text)
    }

    /// Returns the ids of the rows that a page removes from a device, and the ids of the rows that
    /// the page contains.
    static func pageIDs(_ page: [UInt8]) -> (removed: Set<String>, present: Set<String>) {
        var ids: (removed: Set<String>, present: Set<String>) = ([], [])
        for row in parts(page, "items") ?? [] {
            let isRemoved =
                row["@removed"] != nil
                || row["deleted"].map { String(decoding: $0, as: UTF8.self) } == "true"
            if isRemoved {
                ids.removed.insert(text(row, "id"))
            } else {
                ids.present.insert(text(row, "id"))
            }
        }
        return ids
    }

    private static func item(_ body: [UInt8]) -> Item? {
        guard let members = JSONPieces.members(body),
            let id = members["id"].flatMap(JSONPieces.text), let value = members["text"]
        else { return nil }
        let version = members["version"].flatMap(JSONPieces.text)
        return Item(
            id: id,
            text: JSONPieces.text(value),
            rank: number(members, "rank"),
            version: version.flatMap { Data(base64Encoded: $0) }.map(Array.init) ?? []
        )
    }
}

extension [UInt8] {
    /// Returns whether this version is older than another one; an unknown version is never older.
    func isOlder(than other: [UInt8]) -> Bool {
        !isEmpty && lexicographicallyPrecedes(other)
    }
}
