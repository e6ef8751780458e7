// SharedInstallation: the name of a client's store on the server: `X-ZUMO-INSTALLATION-ID`.
//
// A random id, made once for each store: the server's operators see by it which device did not sync
// for long. It is no account, and nothing of the hardware is in it.

import Synchronization

final class SharedInstallation: Sendable {
    private let name = Mutex<String?>(nil)

    /// Nil before a store is open, and where the environment makes none.
    var id: String? {
        get { name.withLock { $0 } }
        set { name.withLock { $0 = newValue.flatMap { Self.isName($0) ? $0 : nil } } }
    }

    /// Whether it can stand in a header field: a store may have been written by anybody.
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
