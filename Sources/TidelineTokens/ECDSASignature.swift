// ECDSASignature: tokens carry r and s as 32 bytes each for P-256, as 48 for P-384 (RFC 7518 section 3.4). OpenSSL uses
// the DER form of RFC 3279 section 2.2.3:
//
//     SEQUENCE { INTEGER r, INTEGER s }

/// The conversion between the two encodings of an ECDSA signature.
enum ECDSASignature {
    /// Converts a signature to DER; nil unless r and s have `half` bytes each.
    static func der(raw: [UInt8], half: Int) -> [UInt8]? {
        guard raw.count == 2 * half else { return nil }
        let body = integer(raw[..<half]) + integer(raw[half...])
        return [0x30, UInt8(body.count)] + body
    }

    private static func integer(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
        var digits = Array(bytes.drop { $0 == 0 })
        // The first bit is the sign.
        if digits.first.map({ $0 >= 0x80 }) ?? true { digits.insert(0, at: 0) }
        return [0x02, UInt8(digits.count)] + digits
    }

    /// Converts a signature from DER; nil if the bytes are not a signature.
    static func raw(der: [UInt8], half: Int) -> [UInt8]? {
        guard der.count >= 2, der[0] == 0x30, Int(der[1]) == der.count - 2 else { return nil }
        var rest = der[2...]
        guard let r = number(&rest, half), let s = number(&rest, half), rest.isEmpty else {
            return nil
        }
        return r + s
    }

    private static func number(_ rest: inout ArraySlice<UInt8>, _ half: Int) -> [UInt8]? {
        guard rest.popFirst() == 0x02, let count = rest.popFirst(), Int(count) <= rest.count else {
            return nil
        }
        let digits = rest.prefix(Int(count)).drop { $0 == 0 }
        rest.removeFirst(Int(count))
        guard digits.count <= half else { return nil }
        return Array(repeating: 0, count: half - digits.count) + digits
    }
}
