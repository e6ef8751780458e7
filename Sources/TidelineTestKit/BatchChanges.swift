// BatchChanges: simulates faults that affect batches.

import Foundation
package import Tideline

/// The changes that a faulty network or gateway makes to batches and their responses.
package enum BatchChanges {
    /// Returns a batch with only the first tenths of its requests; never splits an atomic group.
    static func cut(_ request: TransportRequest, _ tenths: Int) -> TransportRequest {
        changed(request, "requests") { requests in
            let count = requests.count * tenths / 10
            requests.removeLast(requests.count - group(at: count, of: requests).lowerBound)
        }
    }

    /// Returns a batch without the request at a position in tenths, and without the rest of that
    /// request's atomic group.
    ///
    /// Also returns the rejections of the removed requests.
    static func withoutOne(
        _ request: TransportRequest,
        _ tenths: Int
    ) -> (TransportRequest, rejections: [[UInt8]]) {
        var rejections: [[UInt8]] = []
        let rest = changed(request, "requests") { requests in
            guard !requests.isEmpty else { return }
            let index = requests.count * tenths / 10
            let group = group(at: index, of: requests)
            rejections = group.compactMap { member in
                member == index
                    ? answer(to: requests[member], status: 403)
                    : answer(to: requests[member], status: 424, body: #"{"code":"groupFailed"}"#)
            }
            requests.removeSubrange(group)
        }
        return (rest, rejections)
    }

    /// Returns a batch without the requests for which `rejects` returns a response, and the
    /// responses to all removed requests.
    ///
    /// The rest of their atomic groups is removed too.
    package static func without(
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

    /// Returns the indexes of the requests in a request's atomic group, or only the request's own
    /// index if it has no group.
    private static func group(at index: Int, of requests: [[UInt8]]) -> Range<Int> {
        func name(_ index: Int) -> [UInt8]? {
            requests.indices.contains(index)
                ? JSONPieces.members(requests[index])?["atomicityGroup"] : nil
        }
        guard let group = name(index) else { return index..<index + 1 }
        var range = index..<index + 1
        while name(range.lowerBound - 1) == group {
            range = range.lowerBound - 1..<range.upperBound
        }
        while name(range.upperBound) == group { range = range.lowerBound..<range.upperBound + 1 }
        return range
    }

    /// Returns the response to a batch with additional responses.
    package static func adding(
        _ answers: [[UInt8]],
        to response: TransportResponse
    ) -> TransportResponse {
        answers.isEmpty ? response : changed(response) { $0 += answers }
    }

    /// Returns the response to a batch in which one success is replaced by a response without a
    /// row.
    static func emptyingOne(_ response: TransportResponse, _ tenths: Int) -> TransportResponse {
        changed(response) { answers in
            guard !answers.isEmpty else { return }
            let index = answers.count * tenths / 10
            let status = JSONPieces.members(answers[index])?["status"] ?? []
            guard ["200", "201"].contains(String(decoding: status, as: UTF8.self)) else { return }
            answers[index] = answer(to: answers[index], status: 204) ?? answers[index]
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
