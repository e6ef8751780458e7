// PlainText: scans text eight bytes at a time.

/// A scan for the first byte of a JSON string that needs an escape.
package enum PlainText {
    private static let ones: UInt64 = 0x0101_0101_0101_0101
    private static let highBits: UInt64 = 0x8080_8080_8080_8080

    /// Returns the offset of the first control character, quote, or backslash at `start` or later,
    /// or the count if there is none.
    ///
    /// Also returns whether all bytes before the offset are ASCII.
    package static func end(
        _ bytes: UnsafeBufferPointer<UInt8>,
        from start: Int
    ) -> (index: Int, isASCII: Bool) {
        guard let base = UnsafeRawPointer(bytes.baseAddress) else { return (start, true) }
        var index = start
        var high: UInt64 = 0
        while index + 8 <= bytes.count {
            let word = base.loadUnaligned(fromByteOffset: index, as: UInt64.self)
            // The high bit of a byte is set if the byte is below 0x20 or equals the character. A
            // borrow may also set the high bit of the next byte, which only causes a closer check.
            let control = (word &- ones &* 0x20) & ~word
            let quote = (word ^ ones &* 0x22) &- ones
            let slash = (word ^ ones &* 0x5C) &- ones
            if (control | quote & ~(word ^ ones &* 0x22) | slash & ~(word ^ ones &* 0x5C))
                & highBits != 0
            {
                break
            }
            high |= word
            index += 8
        }
        while index < bytes.count {
            let byte = bytes[index]
            if byte < 0x20 || byte == 0x22 || byte == 0x5C { break }
            high |= UInt64(byte)
            index += 1
        }
        return (index, high & highBits == 0)
    }
}
