// SharedInstallation: the installation id of a store.
//
// The id is random and created once for each store. It shows the server's operators which devices
// have not synced for a long time. It does not identify an account, and contains nothing about the
// hardware.

import Synchronization

/// The installation id of a client's store, which the server receives in `X-ZUMO-INSTALLATION-ID`.
final class SharedInstallation: Sendable {
    private let name = Mutex<String?>(nil)

    /// The id; nil until a store is open, or if the environment creates none.
    var id: String? {
        get { name.withLock { $0 } }
        set { name.withLock { $0 = newValue.flatMap { Self.isName($0) ? $0 : nil } } }
    }

    /// Returns whether the id is valid in a header field; another program may have changed the
    /// stored id.
    static func isName(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                    true
                default: false
                }
            }
    }
}
