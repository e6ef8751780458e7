// RecordedCall: a request and its answer, as the recorder of a world writes them down; a batch is
// several of them.

import Foundation
import Tideline
import TidelineCore

struct RecordedCall: Sendable {
    var method: String
    /// The path with its query.
    var target: String
    var ifMatch: String?
    /// The body with its members in order, so that one is the same alone and in a batch.
    var body: String
    var status: Int
    /// The entity tag of the answer.
    var tag: String?
    var row: Row?

    /// Whether it changed the server.
    var isChange: Bool { method != "GET" && (200..<300).contains(status) }

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
                body: text(request.body.flatMap(parsed)),
                status: response.status,
                tag: response.headers["ETag"],
                row: row(response.body)
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
            let asked = request.body.flatMap(parsed) as? [String: Any],
            let requests = asked["requests"] as? [[String: Any]],
            let answered = parsed(response.body) as? [String: Any],
            let responses = answered["responses"] as? [[String: Any]]
        else { return nil }
        var answers: [String: [String: Any]] = [:]
        for answer in responses { answers[answer["id"] as? String ?? ""] = answer }
        return requests.compactMap { request in
            guard let answer = answers[request["id"] as? String ?? ""] else { return nil }
            return RecordedCall(
                method: request["method"] as? String ?? "",
                target: request["url"] as? String ?? "",
                ifMatch: headers(request)["If-Match"],
                body: text(request["body"]),
                status: answer["status"] as? Int ?? 0,
                tag: headers(answer)["ETag"],
                row: row(Array(text(answer["body"]).utf8))
            )
        }
    }

    /// Names of fields are the same in any letter case.
    private static func headers(_ part: [String: Any]) -> HTTPFields {
        var fields = HTTPFields()
        for (name, value) in part["headers"] as? [String: String] ?? [:] { fields[name] = value }
        return fields
    }

    private static func parsed(_ bytes: [UInt8]) -> Any? {
        try? JSONSerialization.jsonObject(with: Data(bytes))
    }

    private static func text(_ value: Any?) -> String {
        guard let value, JSONSerialization.isValidJSONObject(value),
            let data = try? JSONSerialization.data(withJSONObject: value, options: .sortedKeys)
        else { return "" }
        return String(decoding: data, as: UTF8.self)
    }

    private static func row(_ body: [UInt8]) -> Row? {
        guard let page = try? JSON(String(decoding: body, as: UTF8.self)),
            let item = try? page.decode(WorldItem.self), let row = try? Row(item)
        else { return nil }
        return row
    }
}
