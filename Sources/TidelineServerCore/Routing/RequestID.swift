// RequestID: the name of a request in its answer and its log lines.

import Synchronization
package import TidelineCore

package final class RequestIDs: Sendable {
    private let prefix: String
    private let count = Atomic<UInt64>(0)

    /// Names of the form `prefix-1`; the prefix tells the starts of a server apart.
    package init(prefix: String) {
        self.prefix = prefix
    }

    /// The caller's own name for the request when it is well formed, else a new one.
    package func id(_ headers: HTTPFields) -> String {
        for field in headers
        where field.name.utf8.count == 12 && ASCII.equal(field.name, "x-request-id") {
            if Self.isWellFormed(field.value) { return field.value }
            break
        }
        let number = count.wrappingAdd(1, ordering: .relaxed).newValue
        return prefix + "-" + String(number, radix: 16)
    }

    /// Up to 128 letters, digits and `-._:/+=@`: nothing that could end a line or a field.
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
