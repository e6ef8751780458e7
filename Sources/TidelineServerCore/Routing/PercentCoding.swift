// PercentCoding: decodes and encodes parts of URLs.

import TidelineCore

/// The percent-encoding of RFC 3986 over bytes, without URLComponents.
package enum PercentCoding {
    /// Returns the decoded string; nil for an invalid encoding or invalid UTF-8.
    package static func decode(
        _ text: UnsafeBufferPointer<UInt8>,
        plusIsSpace: Bool = false
    ) -> String? {
        guard text.contains(where: { $0 == UInt8(ascii: "%") || $0 == UInt8(ascii: "+") }) else {
            return UTF8Text.string(text)
        }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count)
        var index = 0
        while index < text.count {
            switch text[index] {
            case UInt8(ascii: "+") where plusIsSpace:
                bytes.append(UInt8(ascii: " "))
            case UInt8(ascii: "%"):
                guard index + 2 < text.count, let high = digit(text[index + 1]),
                    let low = digit(text[index + 2])
                else { return nil }
                bytes.append(high << 4 | low)
                index += 2
            case let byte:
                bytes.append(byte)
            }
            index += 1
        }
        return bytes.withUnsafeBufferPointer { UTF8Text.string($0) }
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }

    /// Returns the string with everything but unreserved characters encoded.
    ///
    /// A link therefore contains no `;`, at which classic clients would cut it.
    package static func encode(_ text: String) -> String {
        if text.utf8.allSatisfy(isUnreserved) { return text }
        var result: [UInt8] = []
        result.reserveCapacity(text.utf8.count + 16)
        encode(text, into: &result)
        return String(decoding: result, as: UTF8.self)
    }

    package static func encode(_ text: String, into result: inout [UInt8]) {
        var text = text
        text.withUTF8 { bytes in
            if bytes.allSatisfy(isUnreserved) { return result.append(contentsOf: bytes) }
            for byte in bytes {
                if isUnreserved(byte) {
                    result.append(byte)
                } else {
                    result.append(UInt8(ascii: "%"))
                    result.append(hex(byte >> 4))
                    result.append(hex(byte & 15))
                }
            }
        }
    }

    private static func hex(_ digit: UInt8) -> UInt8 {
        digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "A") + digit - 10
    }

    private static func isUnreserved(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."),
            UInt8(ascii: "_"), UInt8(ascii: "~"):
            true
        default: false
        }
    }
}
