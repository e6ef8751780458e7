// RowVersion: versions on the wire.

import TidelineCore

/// The opaque version of a row on the wire: base64 of the eight bytes of its commit timestamp.
package enum RowVersion {
    private static let alphabetText: StaticString =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

    /// Returns the value of a base64 character.
    private static func digit(_ character: UInt8) -> UInt64? {
        switch character {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt64(character - UInt8(ascii: "A"))
        case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt64(character - UInt8(ascii: "a")) + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt64(character - UInt8(ascii: "0")) + 52
        case UInt8(ascii: "+"): 62
        case UInt8(ascii: "/"): 63
        default: nil
        }
    }

    /// The number of characters in a version.
    static let size = 12

    /// Writes the twelve characters of a version.
    package static func write(_ timestamp: Int64, to target: UnsafeMutablePointer<UInt8>) {
        let bits = UInt64(bitPattern: timestamp)
        let digits = alphabetText.utf8Start
        // 64 bits are ten digits of six bits and one of four, with padding.
        var shift: UInt64 = 58
        for place in 0..<10 {
            target[place] = digits[Int(bits >> shift & 63)]
            shift &-= 6
        }
        target[10] = digits[Int(bits << 2 & 63)]
        target[11] = UInt8(ascii: "=")
    }

    package static func text(_ timestamp: Int64) -> String {
        String(unsafeUninitializedCapacity: 12) { buffer in
            if let start = buffer.baseAddress { write(timestamp, to: start) }
            return 12
        }
    }

    /// Returns the commit timestamp of a version; nil if this server did not create the version.
    package static func timestamp(_ text: String) -> Int64? {
        let bytes = Array(text.utf8)
        guard bytes.count == 12, bytes[11] == UInt8(ascii: "=") else { return nil }
        var bits: UInt64 = 0
        for (index, byte) in bytes[..<11].enumerated() {
            guard let digit = digit(byte) else { return nil }
            bits = index < 10 ? bits << 6 | digit : bits << 4 | digit >> 2
        }
        let timestamp = Int64(bitPattern: bits)
        return self.text(timestamp) == text ? timestamp : nil
    }

    /// Returns the entity tag of a version.
    package static func tag(_ timestamp: Int64) -> String { "\"" + text(timestamp) + "\"" }
}
