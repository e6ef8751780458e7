// RequestTarget: parses targets, without decoding them (RFC 9112 section 3.2).

import TidelineCore

/// The target of a request line, split into path and query.
package struct RequestTarget: Hashable, Sendable {
    /// The path, percent-encoded; `*` for a request about the server itself.
    package var path: String
    /// The query, percent-encoded, without the question mark.
    package var query: String

    /// Parses a target; nil if it is neither a path, nor an http address, nor `*`, or contains invalid bytes.
    package init?(_ bytes: UnsafeRawBufferPointer) {
        if bytes.contains(where: { $0 <= 0x20 || $0 == 0x7F }) { return nil }
        let start = Self.originLength(bytes)
        let local = UnsafeRawBufferPointer(rebasing: bytes[start...])
        let mark = local.firstIndex(of: UInt8(ascii: "?")) ?? local.count
        guard let path = UTF8Text.string(UnsafeRawBufferPointer(rebasing: local[..<mark])),
            let query = UTF8Text.string(
                UnsafeRawBufferPointer(rebasing: local[mark...].dropFirst())
            )
        else { return nil }
        if start > 0 && path.isEmpty {
            self.path = "/"
        } else if path.utf8.first == UInt8(ascii: "/") || path == "*" {
            self.path = path
        } else {
            return nil
        }
        self.query = query
    }

    /// Returns the length of scheme and authority in an absolute URL, as proxies receive it; otherwise 0.
    private static func originLength(_ bytes: UnsafeRawBufferPointer) -> Int {
        if bytes.first == UInt8(ascii: "/") { return 0 }
        for scheme: StaticString in ["http://", "https://"]
        where bytes.hasPrefixIgnoringCase(scheme) {
            let authority = bytes[scheme.utf8CodeUnitCount...]
            return authority.firstIndex { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") }
                ?? bytes.count
        }
        return 0
    }
}
