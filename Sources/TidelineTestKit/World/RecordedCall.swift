// RecordedCall: a request and its answer, as the recorder of a world writes them down; a batch is
// several of them.

import Foundation
import Tideline
import TidelineCore

struct RecordedCall: Sendable {
    /// The parts of a row that a world checks.
    struct Item: Sendable {
        var id: String
        var text: String?
        var rank: Int?
        /// The bytes of the version, which grow.
        var version: [UInt8]
    }

    var method: String
    /// The path with its query.
    var target: String
    var ifMatch: String?
    var body: [UInt8]
    var status: Int
    /// The group of a batch that it belongs to.
    var group: String?
    /// The entity tag of the answer.
    var tag: String?
    var item: Item?

    /// Whether it changed the server.
    var isChange: Bool { method != "GET" && (200..<300).contains(status) }

    /// The bytes of the version that it asks for.
    var askedVersion: [UInt8]? {
        let text = (ifMatch ?? "").filter { $0 != "\"" }
        return text.isEmpty ? nil : Data(base64Encoded: text).map { Array($0) }
    }

    /// The last part of the path.
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
                item: request.method == "GET" ? nil : item(response.body)
            )
        ]
    }

    /// A link to changes names the state of the database, whose name is drawn by chance.
    private static func withoutToken(_ query: String) -> String {
        guard let token = query.firstRange(of: "deltatoken=") else { return query }
        return String(query[..<token.upperBound])
            + String(query[token.upperBound...].drop { $0 != "&" })
    }

    /// The calls of a batch that was answered as one.
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
                item: answer["body"].flatMap(item)
            )
        }
    }

    /// The objects of a batch, taken apart.
    private static func parts(_ body: [UInt8], _ name: String) -> [[JSONPieces.Member]]? {
        JSONPieces.members(body)?[name].flatMap(JSONPieces.elements)?.map {
            JSONPieces.members($0) ?? []
        }
    }

    /// Names of fields are the same in any letter case.
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
    /// Of versions; one that is not known is not older than any.
    func isOlder(than other: [UInt8]) -> Bool {
        !isEmpty && lexicographicallyPrecedes(other)
    }
}
