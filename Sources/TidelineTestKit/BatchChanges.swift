// BatchChanges: the changes that a bad network, or a gateway, makes to a batch and its answer.

import Foundation
import Tideline

enum BatchChanges {
    /// A batch of which only the first requests are come to: so many tenths of them, and no group in
    /// parts.
    static func cut(_ request: TransportRequest, _ tenths: Int) -> TransportRequest {
        changed(request, "requests") { requests in
            let count = requests.count * tenths / 10
            requests.removeLast(requests.count - group(at: count, of: requests).lowerBound)
        }
    }

    /// A batch without the request at so many tenths of it, and the refusals that are its answer and
    /// that of the others of its group.
    static func withoutOne(
        _ request: TransportRequest,
        _ tenths: Int
    ) -> (TransportRequest, refusals: [[UInt8]]) {
        var refusals: [[UInt8]] = []
        let rest = changed(request, "requests") { requests in
            guard !requests.isEmpty else { return }
            let place = requests.count * tenths / 10
            let group = group(at: place, of: requests)
            refusals = group.compactMap { member in
                member == place
                    ? answer(to: requests[member], status: 403)
                    : answer(to: requests[member], status: 424, body: #"{"code":"groupFailed"}"#)
            }
            requests.removeSubrange(group)
        }
        return (rest, refusals)
    }

    /// A batch without the requests that `rejects` names a response for, and without the rest of their
    /// atomic groups, and the responses to all of these.
    static func without(
        _ request: TransportRequest,
        where rejects: (_ method: String, _ target: String, _ body: [UInt8]?) -> (
            status: Int, body: [UInt8]
        )?
    ) -> (TransportRequest, responses: [[UInt8]]) {
        var responses: [[UInt8]] = []
        let rest = changed(request, "requests") { requests in
            var removed = IndexSet()
            for index in requests.indices where !removed.contains(index) {
                guard let problem = rejection(of: requests[index], rejects) else { continue }
                for member in group(at: index, of: requests) {
                    removed.insert(member)
                    let own = member == index ? problem : Self.groupFailed
                    let body = String(decoding: own.body, as: UTF8.self)
                    if let response = answer(to: requests[member], status: own.status, body: body) {
                        responses.append(response)
                    }
                }
            }
            for index in removed.reversed() { requests.remove(at: index) }
        }
        return (rest, responses)
    }

    private static let groupFailed = (
        status: 424, body: Array(#"{"status":424,"code":"groupFailed"}"#.utf8)
    )

    private static func rejection(
        of request: [UInt8],
        _ rejects: (String, String, [UInt8]?) -> (status: Int, body: [UInt8])?
    ) -> (status: Int, body: [UInt8])? {
        guard let members = JSONPieces.members(request),
            let method = members["method"].flatMap(JSONPieces.text),
            let target = members["url"].flatMap(JSONPieces.text)
        else { return nil }
        return rejects(method, target, members["body"])
    }

    /// Returns the positions of the group of a request; only its own if it has no group.
    private static func group(at place: Int, of requests: [[UInt8]]) -> Range<Int> {
        func name(_ place: Int) -> [UInt8]? {
            requests.indices.contains(place)
                ? JSONPieces.members(requests[place])?["atomicityGroup"] : nil
        }
        guard let group = name(place) else { return place..<place + 1 }
        var range = place..<place + 1
        while name(range.lowerBound - 1) == group {
            range = range.lowerBound - 1..<range.upperBound
        }
        while name(range.upperBound) == group { range = range.lowerBound..<range.upperBound + 1 }
        return range
    }

    /// The answer to a batch, with those to more requests.
    static func adding(_ answers: [[UInt8]], to response: TransportResponse) -> TransportResponse {
        answers.isEmpty ? response : changed(response) { $0 += answers }
    }

    /// The answer to a batch where one success has no row.
    static func emptyingOne(_ response: TransportResponse, _ tenths: Int) -> TransportResponse {
        changed(response) { answers in
            guard !answers.isEmpty else { return }
            let place = answers.count * tenths / 10
            let status = JSONPieces.members(answers[place])?["status"] ?? []
            guard ["200", "201"].contains(String(decoding: status, as: UTF8.self)) else { return }
            answers[place] = answer(to: answers[place], status: 204) ?? answers[place]
        }
    }

    private static func answer(
        to request: [UInt8],
        status: Int,
        body: String? = nil
    ) -> [UInt8]? {
        guard let id = JSONPieces.members(request)?["id"] else { return nil }
        var members = [
            JSONPieces.Member(name: "id", value: id),
            JSONPieces.Member(name: "status", value: Array(String(status).utf8)),
        ]
        if let body { members.append(JSONPieces.Member(name: "body", value: Array(body.utf8))) }
        return JSONPieces.object(members)
    }

    private static func changed(
        _ request: TransportRequest,
        _ name: String,
        _ change: (inout [[UInt8]]) -> Void
    ) -> TransportRequest {
        guard let body = request.body else { return request }
        var result = request
        result.body = changed(body, name, change)
        return result
    }

    private static func changed(
        _ response: TransportResponse,
        _ change: (inout [[UInt8]]) -> Void
    ) -> TransportResponse {
        guard response.status == 200 else { return response }
        var result = response
        result.body = changed(response.body, "responses", change)
        return result
    }

    private static func changed(
        _ body: [UInt8],
        _ name: String,
        _ change: (inout [[UInt8]]) -> Void
    ) -> [UInt8] {
        guard var members = JSONPieces.members(body), let array = members[name],
            var elements = JSONPieces.elements(array)
        else { return body }
        change(&elements)
        members[name] = JSONPieces.array(elements)
        return JSONPieces.object(members)
    }
}
