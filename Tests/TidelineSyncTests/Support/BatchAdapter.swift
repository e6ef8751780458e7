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

    /// How many requests of a batch are done; to the others the batch has no room for an answer.
    private let answersMax: Int

    init(_ inner: any Transport, _ fates: [Fate] = [], answersMax: Int = .max) {
        self.inner = inner
        self.answersMax = answersMax
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
        for (place, (id, part)) in parts.prefix(count).enumerated() {
            let answer = place < answersMax ? try await inner.send(part) : Self.noRoom
            answers.append(Self.text(id, answer))
        }
        if case .cut = fate {
            throw TransportError(.connectionLost, "Cut.", outcomeIsUnknown: true)
        }
        let body = "{\"responses\":[\(answers.joined(separator: ","))]}"
        return TransportResponse(status: 200, body: Array(body.utf8))
    }

    private static let noRoom = TransportResponse(
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

/// The parts of a JSON text as the bytes that they are: a repeat has to have the same.
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

    /// What stands between the outer brackets, split at commas and colons.
    private static func values(in text: [UInt8]) -> [Range<Int>] {
        var result: [Range<Int>] = []
        var depth = 0
        var isText = false
        var isEscaped = false
        var start = 1
        for (place, byte) in text.enumerated() {
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
                if depth == 0, place > start { result.append(start..<place) }
            case UInt8(ascii: ","), UInt8(ascii: ":"):
                guard depth == 1 else { continue }
                result.append(start..<place)
                start = place + 1
            default: break
            }
        }
        return result
    }
}
