// ScriptedTransport: a server that is a list: each request gets the next answer.

import Foundation
import Synchronization
package import Tideline
package import TidelineCore

/// Records requests and answers them from a list.
package final class ScriptedTransport: Transport {
    /// One answer.
    package enum Answer: Sendable {
        case response(Int, HTTPFields, String)
        /// No answer arrives.
        case lost
        /// An error that is not a transport error.
        case broken
        /// Runs a closure that returns the answer.
        case run(@Sendable (Recorded) async throws -> Answer)

        /// JSON; a server error gets the members of a problem body.
        package static func json(
            _ status: Int,
            _ body: String,
            _ headers: HTTPFields = [:]
        ) -> Answer {
            guard (400..<500).contains(status), body.hasPrefix(#"{"error""#) else {
                return .response(status, headers, body)
            }
            let members = #"{"title":"Rejected","status":\#(status),"#
            return .response(status, headers, members + body.dropFirst())
        }

        /// An answer without a row.
        ///
        /// An empty success names the request, and a rejection is the server's, with its problem body, unless a
        /// gateway often answers with that status.
        package static func status(_ status: Int, _ headers: HTTPFields = [:]) -> Answer {
            if [200, 204].contains(status), headers == [:] {
                return .response(status, ["Repeatability-Result": "accepted"], "")
            }
            guard (400..<500).contains(status), ![404, 408, 410, 429].contains(status) else {
                return .response(status, headers, "")
            }
            return .json(status, #"{"error":"Refused."}"#, headers)
        }
    }

    /// A request as it was sent.
    package struct Recorded: Sendable, Hashable, CustomStringConvertible {
        package var method: String
        /// Path and query, percent-encoded.
        package var target: String
        package var ifMatch: String?
        package var body: String?
        package var requestID: String?
        /// The values of `Authorization` and `X-ZUMO-AUTH`.
        package var bearer: String?
        package var zumoAuth: String?
        /// The value of `X-ZUMO-INSTALLATION-ID`.
        package var installation: String?
        /// The value of `Content-Encoding`.
        package var coding: String?

        package var description: String { "\(method) \(target) \(ifMatch ?? "-") \(body ?? "-")" }

        /// The query without percent-encoding.
        package var query: String {
            let parts = target.split(separator: "?", maxSplits: 1)
            return parts.count < 2 ? "" : String(parts[1]).removingPercentEncoding ?? ""
        }
    }

    package struct Unscripted: Error {
        package var request: Recorded
    }

    private struct Odd: Error {}

    private let state: Mutex<(answers: [Answer], sent: [Recorded])>
    private let otherwise: Answer?
    private let takesBatches: Bool

    /// Answers requests from a list; `otherwise` answers the requests after its end.
    ///
    /// Batches are rejected, conditional reads fail, and neither is recorded, unless the script answers them.
    package init(_ answers: [Answer] = [], otherwise: Answer? = nil, takesBatches: Bool = false) {
        state = Mutex((answers, []))
        self.otherwise = otherwise
        self.takesBatches = takesBatches
    }

    package var sent: [Recorded] { state.withLock { $0.sent } }

    /// The number of unused answers.
    package var unused: Int { state.withLock { $0.answers.count } }

    package func add(_ answers: Answer...) { state.withLock { $0.answers += answers } }

    package func send(_ request: TransportRequest) async throws -> TransportResponse {
        if !takesBatches, request.url.path().hasSuffix("/$batch") {
            return TransportResponse(status: 404)
        }
        // A probe for conditional requests: they are supported.
        if request.method == "GET", request.headers["If-Match"] != nil {
            return TransportResponse(status: 412, body: Array(serverRow("other", 0).utf8))
        }
        let recorded = Recorded(
            method: request.method,
            target: Self.target(request.url),
            ifMatch: request.headers["If-Match"],
            body: request.body.map { String(decoding: $0, as: UTF8.self) },
            requestID: request.headers["Repeatability-Request-ID"],
            bearer: request.headers["Authorization"],
            zumoAuth: request.headers["X-ZUMO-AUTH"],
            installation: request.headers["X-ZUMO-INSTALLATION-ID"],
            coding: request.headers["Content-Encoding"]
        )
        let answer = state.withLock { state -> Answer? in
            state.sent.append(recorded)
            return state.answers.isEmpty ? otherwise : state.answers.removeFirst()
        }
        guard let answer else { throw Unscripted(request: recorded) }
        return try await respond(answer, recorded)
    }

    private func respond(_ answer: Answer, _ request: Recorded) async throws -> TransportResponse {
        switch answer {
        case .response(let status, let headers, let body):
            TransportResponse(status: status, headers: headers, body: Array(body.utf8))
        case .lost:
            throw TransportError(.connectionLost, "Lost.", outcomeIsUnknown: true)
        case .broken:
            throw Odd()
        case .run(let body):
            try await respond(try await body(request), request)
        }
    }

    private static func target(_ url: URL) -> String {
        let components = URLComponents(url: url, resolvingAgainstBaseURL: false)
        let path = components?.percentEncodedPath ?? ""
        return path + (components?.percentEncodedQuery.map { "?" + $0 } ?? "")
    }
}
