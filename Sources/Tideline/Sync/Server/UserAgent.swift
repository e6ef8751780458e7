// UserAgent: the header field `User-Agent`, as `Tideline/VERSION (APP)`.

import Foundation
import TidelineCore

/// The value of the `User-Agent` field of every request (RFC 9110 section 10.1.5).
package enum UserAgent {
    /// The maximum length in bytes of an app's name in the field.
    private static let nameBytesMax = 100

    /// Returns the value of the field.
    ///
    /// - Parameter appName: The name of the app; if nil, the bundle identifier, or the name of the
    ///   process if there is none.
    /// - Returns: Visible ASCII characters and spaces.
    package static func text(appName: String?) -> String {
        let own = Bundle.main.bundleIdentifier ?? ProcessInfo.processInfo.processName
        let name = safe(appName ?? own)
        return "Tideline/\(ReleaseVersion.text)" + (name.isEmpty ? "" : " (\(name))")
    }

    /// Returns the name without characters that are invalid in a comment of a header field.
    package static func safe(_ name: String) -> String {
        let bytes = name.utf8.prefix(nameBytesMax).map { byte -> UInt8 in
            switch byte {
            case UInt8(ascii: "("), UInt8(ascii: ")"), UInt8(ascii: "\\"): UInt8(ascii: "-")
            case 0x20...0x7E: byte
            default: UInt8(ascii: "-")
            }
        }
        return String(decoding: bytes, as: UTF8.self).trimmingCharacters(in: .whitespaces)
    }
}
