// OrdinaryUser: work with the rights of somebody who is not root, whoever runs the tests.

import Foundation
import Testing

#if os(Linux)
import Glibc
#endif

enum OrdinaryUser {
    /// Runs `body` as the owner of `paths` whom permissions bind.
    ///
    /// Root gives the paths to "nobody" and takes that one's rights to files, on this thread alone;
    /// whoever is not root has them already.
    static func owning<Result>(
        _ paths: [String],
        _ body: () throws -> Result
    ) throws -> Result {
        #if os(Linux)
        guard geteuid() == 0 else { return try body() }
        // The modules of Swift do not have it.
        typealias Change = @convention(c) (uid_t) -> CInt
        let change = unsafeBitCast(try #require(dlsym(nil, "setfsuid")), to: Change.self)
        for path in paths { try #require(chown(path, nobody, nobody) == 0) }
        _ = change(nobody)
        defer { _ = change(0) }
        // It tells the one before, and whether the change was done only so.
        try #require(change(nobody) == CInt(nobody))
        return try body()
        #else
        return try body()
        #endif
    }

    private static let nobody: UInt32 = 65_534
}
