// ClientVersion: the value of `X-ZUMO-VERSION`, in the format of the SDKs of Azure Mobile Apps.
//
// The header field is sent only together with an installation id.

import Foundation
import TidelineCore

/// The value of `X-ZUMO-VERSION`, which names the library and the operating system.
enum ClientVersion {
    /// A string such as `ZUMO/0.1 (lang=Swift; os=Linux; os_version=6.1.0; arch=x86_64; version=0.1.0)`.
    static let text: String = {
        let brief = ReleaseVersion.text.split(separator: ".").prefix(2).joined(separator: ".")
        let system = ProcessInfo.processInfo.operatingSystemVersion
        let number = "\(system.majorVersion).\(system.minorVersion).\(system.patchVersion)"
        return "ZUMO/\(brief) (lang=Swift; os=\(name); os_version=\(number); arch=\(architecture); "
            + "version=\(ReleaseVersion.text))"
    }()

    private static var name: String {
        #if os(iOS)
        "iOS"
        #elseif os(macOS)
        "macOS"
        #elseif os(watchOS)
        "watchOS"
        #elseif os(tvOS)
        "tvOS"
        #elseif os(visionOS)
        "visionOS"
        #elseif os(Linux)
        "Linux"
        #else
        "other"
        #endif
    }

    private static var architecture: String {
        #if arch(arm64)
        "arm64"
        #elseif arch(x86_64)
        "x86_64"
        #else
        "other"
        #endif
    }
}
