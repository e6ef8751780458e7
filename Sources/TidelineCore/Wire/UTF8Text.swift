// UTF8Text: creates strings from a caller's bytes.

/// The conversion of a caller's bytes to strings.
package enum UTF8Text {
    /// Returns a string, or nil if the bytes are not valid UTF-8.
    ///
    /// Nearly all strings are ASCII, so that check comes first, because it is much faster.
    package static func string(_ bytes: UnsafeBufferPointer<UInt8>) -> String? {
        var all: UInt8 = 0
        for byte in bytes { all |= byte }
        return all < 0x80
            ? String(decoding: bytes, as: UTF8.self) : String(validating: bytes, as: UTF8.self)
    }

    /// Returns the longest prefix of a string that has at most this many bytes and ends between
    /// code points.
    ///
    /// A character may have any number of bytes, so a limit on characters would not bound the size.
    package static func prefix(_ text: String, bytesMax: Int) -> String {
        guard text.utf8.count > bytesMax else { return text }
        var end = text.utf8.index(text.startIndex, offsetBy: bytesMax)
        while UTF8.isContinuation(text.utf8[end]) { end = text.utf8.index(before: end) }
        return String(text[..<end])
    }

    /// Returns a string, or nil if the bytes are not valid UTF-8.
    package static func string(_ bytes: UnsafeRawBufferPointer) -> String? {
        bytes.withMemoryRebound(to: UInt8.self) { string($0) }
    }
}
