// UTF8Text: strings from bytes of a caller.

package enum UTF8Text {
    /// The text, or nil for bytes that are no valid UTF-8.
    ///
    /// Nearly all of it is ASCII, which is looked for first: that takes a fraction of the time.
    package static func string(_ bytes: UnsafeBufferPointer<UInt8>) -> String? {
        var all: UInt8 = 0
        for byte in bytes { all |= byte }
        return all < 0x80
            ? String(decoding: bytes, as: UTF8.self) : String(validating: bytes, as: UTF8.self)
    }

    /// The beginning of a text, in whole code points, of so many bytes at most.
    ///
    /// A character may have any number of bytes, so a count of characters bounds nothing.
    package static func prefix(_ text: String, bytesMax: Int) -> String {
        guard text.utf8.count > bytesMax else { return text }
        var end = text.utf8.index(text.startIndex, offsetBy: bytesMax)
        while UTF8.isContinuation(text.utf8[end]) { end = text.utf8.index(before: end) }
        return String(text[..<end])
    }

    /// The text, or nil for bytes that are no valid UTF-8.
    package static func string(_ bytes: UnsafeRawBufferPointer) -> String? {
        bytes.withMemoryRebound(to: UInt8.self) { string($0) }
    }
}
