// UTF8Check: finds bytes that are not valid UTF-8.

/// A check of UTF-8 by the table of the Unicode Standard, section 3.9 (well-formed byte sequences).
package enum UTF8Check {
    package static func firstInvalid(
        _ bytes: UnsafeBufferPointer<UInt8>,
        _ range: Range<Int>
    ) -> Int? {
        var index = range.lowerBound
        while index < range.upperBound {
            let length = sequenceLength(bytes, index, range.upperBound)
            guard length > 0 else { return index }
            index += length
        }
        return nil
    }

    private static func sequenceLength(
        _ bytes: UnsafeBufferPointer<UInt8>,
        _ index: Int,
        _ end: Int
    ) -> Int {
        let first = bytes[index]
        if first < 0x80 { return 1 }
        let length: Int
        var second: ClosedRange<UInt8> = 0x80...0xBF
        switch first {
        case 0xC2...0xDF: length = 2
        case 0xE0: (length, second) = (3, 0xA0...0xBF)
        case 0xED: (length, second) = (3, 0x80...0x9F)
        case 0xE1...0xEF: length = 3
        case 0xF0: (length, second) = (4, 0x90...0xBF)
        case 0xF4: (length, second) = (4, 0x80...0x8F)
        case 0xF1...0xF3: length = 4
        default: return 0
        }
        guard index + length <= end, second.contains(bytes[index + 1]) else { return 0 }
        for offset in 2..<max(2, length) where bytes[index + offset] & 0xC0 != 0x80 { return 0 }
        return length
    }
}
