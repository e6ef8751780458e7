// RandomRequestTests: valid requests in pieces of any size are never rejected.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineHTTP

struct RandomRequestTests {
    /// A SplitMix64 generator, whose only state is the seed.
    private struct Generator: RandomNumberGenerator {
        var state: UInt64
        mutating func next() -> UInt64 {
            state &+= 0x9E37_79B9_7F4A_7C15
            var mixed = state
            mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
            mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
            return mixed ^ (mixed >> 31)
        }
    }

    private static func request(_ random: inout Generator) -> (raw: String, echo: String) {
        let body = String(repeating: "b", count: Bool.random(using: &random) ? 0 : 3000)
        let query = (0..<Int.random(in: 0..<20, using: &random)).map { "k\($0)=%20v+&f\($0)" }
            .joined(separator: "&")
        var raw =
            "PUT /a%2Fb?\(query) HTTP/1.1\r\nHost: a\r\nContent-Length: \(body.utf8.count)\r\n"
        var echo = "PUT|/a%2Fb|\(query)\nHost=a\nContent-Length=\(body.utf8.count)\n"
        let isBig = Int.random(in: 0..<4, using: &random) == 0
        for number in 0..<Int.random(in: 0..<12, using: &random) {
            let count = Int.random(in: 0..<(isBig ? 900 : 40), using: &random)
            let value = String(repeating: "v", count: count)
            let space = ["", " ", "\t", "  "].randomElement(using: &random) ?? ""
            raw += "X-\(number):\(space)\(value)\r\n"
            echo += "X-\(number)=\(value)\n"
        }
        raw += "\r\n" + body
        return (raw, echo + "body=\(body.utf8.count):\(checksum(Array(body.utf8)))\n")
    }

    /// Method: 60 seeds; each is one connection with ten requests, sent in random pieces that ignore the boundaries of
    /// the requests.
    @Test("Random valid requests in random pieces are accepted and parsed correctly")
    func validRequestsAreAlwaysAccepted() async throws {
        try await withServer { port in
            for seed in UInt64(0)..<60 {
                var random = Generator(state: seed)
                let client = try RawClient(port: port)
                let requests = (0..<10).map { _ in Self.request(&random) }
                var rest = Array(requests.map(\.raw).joined().utf8)[...]
                let largest = [3, 100, 2000, 20_000].randomElement(using: &random) ?? 1
                while !rest.isEmpty {
                    let piece = rest.prefix(Int.random(in: 1...largest, using: &random))
                    try client.send(Array(piece))
                    rest = rest.dropFirst(piece.count)
                    if largest < 1000 && rest.count.isMultiple(of: 7) { sched_yield() }
                }
                for request in requests {
                    let text = try client.answer()?.text
                    guard text == request.echo else {
                        Issue.record("seed \(seed): \(text ?? "nothing") for \(request.raw)")
                        break
                    }
                }
            }
        }
    }
}
