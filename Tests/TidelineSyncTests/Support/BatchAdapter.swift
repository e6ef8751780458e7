// BatchAdapter: takes batches in front of a transport that knows single requests only.

import Foundation
import Synchronization
import Tideline
import TidelineCore

/// Sends each request of a batch to `inner`, in order, and answers them as one.
final class BatchAdapter: Transport {
    /// What happens to a batch.
    enum Fate: Sendable {
        case deliver
        /// The first so many requests are done, and no answer comes.
        case cut(Int)
        /// The batch as a whole is answered so.
        case answer(TransportResponse)
        /// The first so many requests are answered, the others left out.
        case partial(Int)
    }

    private let inner: any Transport
    private let state: Mutex<(fates: [Fate], sizes: [Int])>

    init(_ inner: any Transport, _ fates: [Fate] = []) {
        self.inner = inner
        state = Mutex((fates, []))
    }

    /// How many requests each batch had.
    var sizes: [Int] { state.withLock { $0.sizes } }

    func add(_ fates: Fate...) { state.withLock { $0.fates += fates } }

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        guard request.url.path().hasSuffix("/$batch") else { return try await inner.send(request) }
        let parts = try Self.parts(request)
        let fate = state.withLock { state in
            state.sizes.append(parts.count)
            return state.fates.isEmpty ? .deliver : state.fates.removeFirst()
        }
        var count = parts.count
        switch fate {
        case .deliver: break
        case .answer(let answer): return answer
        case .cut(let few), .partial(let few): count = min(few, count)
        }
        var answers: [String] = []
        for (id, part) in parts.prefix(count) {
            answers.append(Self.text(id, try await inner.send(part)))
        }
        if case .cut = fate {
            throw TransportError(.connectionLost, "Cut.", outcomeIsUnknown: true)
        }
        let body = "{\"responses\":[\(answers.joined(separator: ","))]}"
        return TransportResponse(status: 200, body: Array(body.utf8))
    }

    private static func parts(_ batch: TransportRequest) throws -> [(String, TransportRequest)] {
        let json = try JSONSerialization.jsonObject(with: Data(batch.body ?? []))
        let requests = (json as? [String: Any])?["requests"] as? [[String: Any]] ?? []
        return try requests.map { request in
            var fields = HTTPFields()
            for (name, value) in request["headers"] as? [String: String] ?? [:] {
                fields[name] = value
            }
            let target = request["url"] as? String ?? ""
            let url = URL(string: "http://localhost" + target) ?? batch.url
            let options: JSONSerialization.WritingOptions = [.sortedKeys, .withoutEscapingSlashes]
            let body = try request["body"].map {
                Array(try JSONSerialization.data(withJSONObject: $0, options: options))
            }
            return (
                request["id"] as? String ?? "",
                TransportRequest(
                    method: request["method"] as? String ?? "",
                    url: url,
                    headers: fields,
                    body: body,
                    timeout: batch.timeout
                )
            )
        }
    }

    private static func text(_ id: String, _ answer: TransportResponse) -> String {
        let headers = answer.headers.map { "\"\($0.name)\":\"\($0.value)\"" }
        let body =
            answer.body.isEmpty ? "" : ",\"body\":" + String(decoding: answer.body, as: UTF8.self)
        return "{\"id\":\"\(id)\",\"status\":\(answer.status),"
            + "\"headers\":{\(headers.joined(separator: ","))}\(body)}"
    }
}
