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

    /// The text, or nil for bytes that are no valid UTF-8.
    package static func string(_ bytes: UnsafeRawBufferPointer) -> String? {
        bytes.withMemoryRebound(to: UInt8.self) { string($0) }
    }
}
