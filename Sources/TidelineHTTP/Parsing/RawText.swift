// RawText: compares and converts the bytes of a request head.

import TidelineCore

extension UnsafeRawBufferPointer {
    /// Compares with a lower-case ASCII string.
    func equalsIgnoringCase(_ lowered: StaticString) -> Bool {
        count == lowered.utf8CodeUnitCount && hasPrefixIgnoringCase(lowered)
    }

    /// Compares the beginning with a lower-case ASCII string.
    func hasPrefixIgnoringCase(_ lowered: StaticString) -> Bool {
        guard count >= lowered.utf8CodeUnitCount else { return false }
        for index in 0..<lowered.utf8CodeUnitCount {
            let byte = self[index]
            let folded = byte >= 0x41 && byte <= 0x5A ? byte | 0x20 : byte
            if folded != lowered.utf8Start[index] { return false }
        }
        return true
    }

    /// The bytes without spaces and tabs at both ends.
    var trimmed: UnsafeRawBufferPointer {
        var start = 0
        var end = count
        while start < end, self[start] == 0x20 || self[start] == 0x09 { start += 1 }
        while start < end, self[end - 1] == 0x20 || self[end - 1] == 0x09 { end -= 1 }
        return UnsafeRawBufferPointer(rebasing: self[start..<end])
    }

    /// The header value as a string: UTF-8, or otherwise ISO 8859-1, which was once the standard.
    var headerText: String {
        if let text = UTF8Text.string(self) { return text }
        return String(String.UnicodeScalarView(map { Unicode.Scalar($0) }))
    }
}
