// RequestID: the id of a request in its response and its log lines.

import Synchronization
package import TidelineCore

/// A generator of the ids of requests.
package final class RequestIDs: Sendable {
    private let prefix: String
    private let count = Atomic<UInt64>(0)

    /// Creates a generator of ids such as `prefix-1`; the prefix distinguishes the runs of a server.
    package init(prefix: String) {
        self.prefix = prefix
    }

    /// Returns the caller's id for the request if it is well formed, or a new one.
    package func id(_ headers: HTTPFields) -> String {
        for field in headers
        where field.name.utf8.count == 12 && ASCII.equal(field.name, "x-request-id") {
            if Self.isWellFormed(field.value) { return field.value }
            break
        }
        let number = count.wrappingAdd(1, ordering: .relaxed).newValue
        return prefix + "-" + String(number, radix: 16)
    }

    /// Whether an id has up to 128 letters, digits and `-._:/+=@`, none of which can end a line or a field.
    package static func isWellFormed(_ id: String) -> Bool {
        (1...128).contains(id.utf8.count)
            && id.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "-")...UInt8(ascii: ":"), UInt8(ascii: "_"), UInt8(ascii: "+"),
                    UInt8(ascii: "="), UInt8(ascii: "@"):
                    true
                default: false
                }
            }
    }
}
