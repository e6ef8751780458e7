// SHA256: the hash of FIPS 180-4, for digests that server and client both compute.
//
// The hash is implemented here because the core uses no libraries: CryptoKit does not exist on
// Linux, and libcrypto does not exist on Apple platforms. Decision 0051 has the measurements.

/// An incremental SHA-256 hash.
package struct SHA256: Sendable {
    private static let blockSize = 64

    private var state: (UInt32, UInt32, UInt32, UInt32, UInt32, UInt32, UInt32, UInt32) = (
        0x6A09_E667, 0xBB67_AE85, 0x3C6E_F372, 0xA54F_F53A,
        0x510E_527F, 0x9B05_688C, 0x1F83_D9AB, 0x5BE0_CD19
    )
    /// The bytes that do not fill a block yet.
    private var pending: [UInt8] = []
    private var count: UInt64 = 0

    package init() { pending.reserveCapacity(2 * Self.blockSize) }

    /// Returns the hash of `bytes`.
    package static func hash(_ bytes: some Sequence<UInt8>) -> [UInt8] { hash(Array(bytes)) }

    package static func hash(_ bytes: [UInt8]) -> [UInt8] {
        var hash = SHA256()
        hash.update(bytes)
        return hash.finish()
    }

    package mutating func update(_ bytes: [UInt8]) {
        bytes.withUnsafeBufferPointer { update($0) }
    }

    /// Adds a string, followed by a byte.
    package mutating func update(_ text: String, endedBy byte: UInt8) {
        var text = text
        text.withUTF8 { update($0) }
        withUnsafePointer(to: byte) { update(UnsafeBufferPointer(start: $0, count: 1)) }
    }

    package mutating func update(_ bytes: UnsafeBufferPointer<UInt8>) {
        count &+= UInt64(bytes.count)
        var rest = bytes[...]
        if !pending.isEmpty {
            let missing = rest.prefix(Self.blockSize - pending.count)
            pending.append(contentsOf: missing)
            rest = rest.dropFirst(missing.count)
            guard pending.count == Self.blockSize else { return }
            Self.mix(pending, 0, &state)
            pending.removeAll(keepingCapacity: true)
        }
        let whole = UnsafeBufferPointer(rebasing: rest)
        var place = 0
        while whole.count - place >= Self.blockSize {
            Self.mix(whole, place, &state)
            place += Self.blockSize
        }
        pending.append(contentsOf: whole[place...])
    }

    /// Returns the first bytes of the hash, at most 32; no more bytes may be added after this call.
    package mutating func finish(prefix length: Int = 32) -> [UInt8] {
        let bits = count &* 8
        pending.append(0x80)
        let beyond = (pending.count + 8) % Self.blockSize
        let padding = beyond == 0 ? 0 : Self.blockSize - beyond
        pending.append(contentsOf: repeatElement(0, count: padding))
        for shift in stride(from: UInt64(56), through: 0, by: -8) {
            pending.append(UInt8(truncatingIfNeeded: bits >> shift))
        }
        for place in stride(from: 0, to: pending.count, by: Self.blockSize) {
            Self.mix(pending, place, &state)
        }
        pending.removeAll(keepingCapacity: true)
        return withUnsafeBytes(
            of: (
                state.0.bigEndian, state.1.bigEndian, state.2.bigEndian, state.3.bigEndian,
                state.4.bigEndian, state.5.bigEndian, state.6.bigEndian, state.7.bigEndian
            )
        ) { Array($0.prefix(length)) }
    }

    /// The hash in lower-case hexadecimal digits.
    package mutating func finishHex() -> String { Self.hex(finish()) }

    /// Returns the bytes in hexadecimal, with two digits per byte.
    package static func hex(_ bytes: [UInt8]) -> String {
        let digits = Array("0123456789abcdef".utf8)
        var text: [UInt8] = []
        text.reserveCapacity(2 * bytes.count)
        for byte in bytes {
            text.append(digits[Int(byte >> 4)])
            text.append(digits[Int(byte & 15)])
        }
        return String(decoding: text, as: UTF8.self)
    }

    // MARK: - Blocks

    private typealias State = (UInt32, UInt32, UInt32, UInt32, UInt32, UInt32, UInt32, UInt32)

    private static func mix(_ bytes: [UInt8], _ start: Int, _ state: inout State) {
        bytes.withUnsafeBufferPointer { mix($0, start, &state) }
    }

    /// Hashes the block of 64 bytes that begins at `start`.
    private static func mix(
        _ bytes: UnsafeBufferPointer<UInt8>,
        _ start: Int,
        _ state: inout State
    ) {
        withUnsafeTemporaryAllocation(of: UInt32.self, capacity: 64) { words in
            for index in 0..<16 {
                let place = start &+ 4 &* index
                words[index] =
                    UInt32(bytes[place]) &<< 24 | UInt32(bytes[place &+ 1]) &<< 16
                    | UInt32(bytes[place &+ 2]) &<< 8 | UInt32(bytes[place &+ 3])
            }
            for index in 16..<64 {
                let early = words[index &- 15]
                let late = words[index &- 2]
                let first = turned(early, 7) ^ turned(early, 18) ^ (early &>> 3)
                let second = turned(late, 17) ^ turned(late, 19) ^ (late &>> 10)
                words[index] = words[index &- 16] &+ first &+ words[index &- 7] &+ second
            }
            constants.withUnsafeBufferPointer { round(UnsafeBufferPointer(words), $0, &state) }
        }
    }

    private static func round(
        _ words: UnsafeBufferPointer<UInt32>,
        _ constants: UnsafeBufferPointer<UInt32>,
        _ state: inout State
    ) {
        var (a, b, c, d, e, f, g, h) = state
        for index in 0..<64 {
            let upper = turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)
            let choice = (e & f) ^ (~e & g)
            let first = h &+ upper &+ choice &+ constants[index] &+ words[index]
            let lower = turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)
            let majority = (a & b) ^ (a & c) ^ (b & c)
            (h, g, f, e) = (g, f, e, d &+ first)
            (d, c, b, a) = (c, b, a, first &+ lower &+ majority)
        }
        state = (
            state.0 &+ a, state.1 &+ b, state.2 &+ c, state.3 &+ d,
            state.4 &+ e, state.5 &+ f, state.6 &+ g, state.7 &+ h
        )
    }

    @inline(__always)
    private static func turned(_ word: UInt32, _ bits: UInt32) -> UInt32 {
        word &>> bits | word &<< (32 &- bits)
    }

    /// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
    private static let constants: [UInt32] = [
        0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4,
        0xab1c_5ed5, 0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe,
        0x9bdc_06a7, 0xc19b_f174, 0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f,
        0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da, 0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7,
        0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967, 0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc,
        0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85, 0xa2bf_e8a1, 0xa81a_664b,
        0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070, 0x19a4_c116,
        0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
        0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7,
        0xc671_78f2,
    ]
}
