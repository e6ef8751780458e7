// OrdinaryUser: work with the permissions of a user that is not root, also if root runs the tests.

import Foundation
import Testing

#if os(Linux)
import Glibc
#endif

enum OrdinaryUser {
    /// Runs `body` as an owner of `paths` that is bound by their permissions.
    static func owning<Result>(
        _ paths: [String],
        _ body: () throws -> Result
    ) throws -> Result {
        #if os(Linux)
        guard geteuid() == 0 else { return try body() }
        // Swift's modules do not declare it.
        typealias Change = @convention(c) (uid_t) -> CInt
        let change = unsafeBitCast(try #require(dlsym(nil, "setfsuid")), to: Change.self)
        for path in paths { try #require(chown(path, nobody, nobody) == 0) }
        _ = change(nobody)
        defer { _ = change(0) }
        // It returns the previous user; only a second call shows whether the change was made.
        try #require(change(nobody) == CInt(nobody))
        return try body()
        #else
        return try body()
        #endif
    }

    private static let nobody: UInt32 = 65_534
}
