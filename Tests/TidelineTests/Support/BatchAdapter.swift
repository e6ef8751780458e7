// BatchAdapter: accepts batches for a transport that supports only single requests.

import Foundation
import Synchronization
import Tideline
import TidelineCore

/// Sends each request of a batch to `inner`, in order, and answers them as one.
final class BatchAdapter: Transport {
    /// The fate of a batch.
    enum Fate: Sendable {
        case deliver
        /// The first requests, up to this number, are executed, and no answer arrives.
        case cut(Int)
        /// The batch as a whole gets this answer.
        case answer(TransportResponse)
        /// The first requests, up to this number, are answered, and the others are left out.
        case partial(Int)
    }

    private let inner: any Transport
    private let state: Mutex<(fates: [Fate], sizes: [Int])>

    /// The number of requests of a batch that are executed; the others do not fit into the answer.
    private let answersMax: Int

    init(_ inner: any Transport, _ fates: [Fate] = [], answersMax: Int = .max) {
        self.inner = inner
        self.answersMax = answersMax
        state = Mutex((fates, []))
    }

    /// The number of requests in each batch.
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
        for (index, (id, part)) in parts.prefix(count).enumerated() {
            let answer = index < answersMax ? try await inner.send(part) : Self.responseTooLarge
            answers.append(Self.text(id, answer))
        }
        if case .cut = fate {
            throw TransportError(.connectionLost, "Cut.", outcomeIsUnknown: true)
        }
        let body = "{\"responses\":[\(answers.joined(separator: ","))]}"
        return TransportResponse(status: 200, body: Array(body.utf8))
    }

    private static let responseTooLarge = TransportResponse(
        status: 503,
        headers: ["Retry-After": "0"],
        body: Array(#"{"error":"Not done.","code":"batchAnswersTooLarge"}"#.utf8)
    )

    private static func parts(_ batch: TransportRequest) throws -> [(String, TransportRequest)] {
        let body = batch.body ?? []
        let json = try JSONSerialization.jsonObject(with: Data(body))
        let requests = (json as? [String: Any])?["requests"] as? [[String: Any]] ?? []
        let bodies = RawJSON.elements(of: "requests", in: body).map {
            RawJSON.member("body", of: $0)
        }
        return zip(requests, bodies).map { request, body in
            var fields = HTTPFields()
            for (name, value) in request["headers"] as? [String: String] ?? [:] {
                fields[name] = value
            }
            let target = request["url"] as? String ?? ""
            return (
                request["id"] as? String ?? "",
                TransportRequest(
                    method: request["method"] as? String ?? "",
                    url: URL(string: "http://localhost" + target) ?? batch.url,
                    headers: fields,
                    body: body,
                    timeout: batch.timeout
                )
            )
        }
    }

    private static func text(_ id: String, _ answer: TransportResponse) -> String {
        let headers = answer.headers.map { field in
            "\"\(field.name)\":\"\(field.value.replacing("\"", with: "\\\""))\""
        }
        let body =
            answer.body.isEmpty ? "" : ",\"body\":" + String(decoding: answer.body, as: UTF8.self)
        return "{\"id\":\"\(id)\",\"status\":\(answer.status),"
            + "\"headers\":{\(headers.joined(separator: ","))}\(body)}"
    }
}

/// Splits a JSON text into parts with their original bytes, because a retry must have the same bytes.
private enum RawJSON {
    static func elements(of name: String, in text: [UInt8]) -> [[UInt8]] {
        guard let list = member(name, of: text) else { return [] }
        return values(in: list).map { Array(list[$0]) }
    }

    static func member(_ name: String, of text: [UInt8]) -> [UInt8]? {
        let parts = values(in: text)
        let key = Array("\"\(name)\"".utf8)
        for (index, part) in parts.enumerated() where index % 2 == 0 {
            if Array(text[part]) == key { return Array(text[parts[index + 1]]) }
        }
        return nil
    }

    /// Returns the ranges between the outer brackets, split at commas and colons.
    private static func values(in text: [UInt8]) -> [Range<Int>] {
        var result: [Range<Int>] = []
        var depth = 0
        var isText = false
        var isEscaped = false
        var start = 1
        for (index, byte) in text.enumerated() {
            if isText {
                if isEscaped {
                    isEscaped = false
                } else if byte == UInt8(ascii: "\\") {
                    isEscaped = true
                } else if byte == UInt8(ascii: "\"") {
                    isText = false
                }
                continue
            }
            switch byte {
            case UInt8(ascii: "\""): isText = true
            case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                depth -= 1
                if depth == 0, index > start { result.append(start..<index) }
            case UInt8(ascii: ","), UInt8(ascii: ":"):
                guard depth == 1 else { continue }
                result.append(start..<index)
                start = index + 1
            default: break
            }
        }
        return result
    }
}
