// TraceParent: parses `traceparent`. Pure.

package import TidelineCore

/// The trace and the caller's span of a request (W3C Trace Context).
package struct TraceParent: Hashable, Sendable {
    /// The id of the trace: 32 hexadecimal digits.
    package let trace: String
    /// The id of the caller's span: 16 hexadecimal digits.
    package let span: String

    /// Parses a value; nil if it is invalid, which counts as absent.
    package init?(_ value: String) {
        let parts = value.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count >= 4, parts[0].utf8.count == 2, parts[0] != "ff",
            parts[1].utf8.count == 32, parts[2].utf8.count == 16, parts[3].utf8.count == 2,
            parts[..<4].allSatisfy({ $0.utf8.allSatisfy(Self.isDigit) }),
            // Later versions may have more fields; the current version must not.
            parts.count == 4 || parts[0] != "00",
            parts[1].utf8.contains(where: { $0 != UInt8(ascii: "0") }),
            parts[2].utf8.contains(where: { $0 != UInt8(ascii: "0") })
        else { return nil }
        trace = String(parts[1])
        span = String(parts[2])
    }

    /// Parses the field of a request; nil if it has none, or more than one.
    package init?(_ headers: HTTPFields) {
        var found: String?
        for field in headers
        where field.name.utf8.count == 11 && ASCII.equal(field.name, "traceparent") {
            if found != nil { return nil }
            found = field.value
        }
        guard let found, let read = TraceParent(found) else { return nil }
        self = read
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"): true
        default: false
        }
    }
}
