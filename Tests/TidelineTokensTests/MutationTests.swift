// MutationTests: 10,000 random changes of a valid token, from a seed; none is accepted.

import Testing
import TidelineCore
import TidelineTokens

struct MutationTests {
    static let count = 10000
    static let alphabet = Array(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/ \u{E9}\0".utf8
    )

    @Test("A token with any random change is rejected", arguments: Scheme.allCases)
    func changedTokens(scheme: Scheme) throws {
        let sources = Scheme.allCases.map(\.source)
        let verifier = try TokenVerifier(keys: sources)
        let token = try scheme.signer().sign(RoundTripTests.claims)
        #expect(rejection(of: token, by: verifier) == nil)
        let original = Array(token.utf8)
        var random = SplitMix(state: 42)
        var codes: Set<TokenError.Code> = []
        for number in 0..<Self.count {
            let bytes = Self.mutation(of: original, &random)
            guard bytes != original else { continue }
            let changed = String(decoding: bytes, as: UTF8.self)
            guard let error = rejection(of: changed, by: verifier) else {
                Issue.record("change \(number) is accepted")
                return
            }
            codes.insert(error.code)
        }
        #expect(codes.isSuperset(of: [.malformed, .wrongSignature]))
    }

    private static func mutation(of token: [UInt8], _ random: inout SplitMix) -> [UInt8] {
        var bytes = token
        for _ in 0..<Int.random(in: 1...3, using: &random) {
            let index = Int.random(in: 0..<bytes.count, using: &random)
            switch Int.random(in: 0..<8, using: &random) {
            case 0: bytes[index] ^= 1 << UInt8.random(in: 0..<8, using: &random)
            case 1: bytes.insert(alphabet.randomElement(using: &random) ?? 0, at: index)
            case 2 where bytes.count > 1: bytes.remove(at: index)
            case 3: bytes.removeLast(min(bytes.count - 1, Int(random.next() % 40)))
            case 4:
                let other = Int.random(in: 0..<bytes.count, using: &random)
                bytes.swapAt(index, other)
            case 5:
                let end = Int.random(in: index..<bytes.count, using: &random)
                bytes.insert(contentsOf: bytes[index...end], at: end)
            default: bytes[index] = alphabet.randomElement(using: &random) ?? 0
            }
        }
        return bytes
    }
}

/// Random numbers that are repeatable from a seed.
private struct SplitMix: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
