// BatchChanges: what a bad network, or a gateway, makes of a batch and of its answer.

import Tideline

enum BatchChanges {
    /// A batch of which only the first requests arrive: so many tenths of them.
    static func cut(_ request: TransportRequest, _ tenths: Int) -> TransportRequest {
        changed(request, "requests") { $0.removeLast($0.count - $0.count * tenths / 10) }
    }

    /// A batch without the request at so many tenths of it, and the refusal that is its answer.
    static func withoutOne(
        _ request: TransportRequest,
        _ tenths: Int
    ) -> (TransportRequest, refusal: [UInt8]?) {
        var refusal: [UInt8]?
        let rest = changed(request, "requests") { requests in
            guard !requests.isEmpty else { return }
            let one = requests.remove(at: requests.count * tenths / 10)
            refusal = answer(to: one, status: 403)
        }
        return (rest, refusal)
    }

    /// The answer to a batch, with that to one more request.
    static func adding(_ answer: [UInt8]?, to response: TransportResponse) -> TransportResponse {
        guard let answer else { return response }
        return changed(response) { $0.append(answer) }
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

    private static func answer(to request: [UInt8], status: Int) -> [UInt8]? {
        guard let id = JSONPieces.members(request)?["id"] else { return nil }
        return JSONPieces.object([
            JSONPieces.Member(name: "id", value: id),
            JSONPieces.Member(name: "status", value: Array(String(status).utf8)),
        ])
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
