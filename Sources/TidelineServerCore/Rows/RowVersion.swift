// RowVersion: the opaque version of a row on the wire: base64 of the eight bytes of its stamp.

import TidelineCore

package enum RowVersion {
    private static let alphabetText: StaticString =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    private static let alphabet = Array("\(alphabetText)".utf8)

    /// How many characters a version has.
    static let size = 12

    /// Writes the twelve characters of a version.
    package static func write(_ stamp: Int64, to target: UnsafeMutablePointer<UInt8>) {
        let bits = UInt64(bitPattern: stamp)
        let digits = alphabetText.utf8Start
        // 64 bits are ten digits of six bits and one of four, padded.
        var shift: UInt64 = 58
        for place in 0..<10 {
            target[place] = digits[Int(bits >> shift & 63)]
            shift &-= 6
        }
        target[10] = digits[Int(bits << 2 & 63)]
        target[11] = UInt8(ascii: "=")
    }

    package static func text(_ stamp: Int64) -> String {
        String(unsafeUninitializedCapacity: 12) { buffer in
            if let start = buffer.baseAddress { write(stamp, to: start) }
            return 12
        }
    }

    /// The stamp of a version's text, or nil when it is none of ours.
    package static func stamp(_ text: String) -> Int64? {
        let bytes = Array(text.utf8)
        guard bytes.count == 12, bytes[11] == UInt8(ascii: "=") else { return nil }
        var bits: UInt64 = 0
        for (index, byte) in bytes[..<11].enumerated() {
            guard let digit = alphabet.firstIndex(of: byte) else { return nil }
            bits = index < 10 ? bits << 6 | UInt64(digit) : bits << 4 | UInt64(digit >> 2)
        }
        let stamp = Int64(bitPattern: bits)
        return self.text(stamp) == text ? stamp : nil
    }

    /// The entity tag of a version.
    package static func tag(_ stamp: Int64) -> String { "\"" + text(stamp) + "\"" }
}
