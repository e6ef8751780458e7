// SmallDisk: small disks in memory, for tests with a full disk.

import Foundation

#if os(Linux)
import Glibc
#endif

/// Disks of a few megabytes, if the process is permitted to mount them.
package enum SmallDisk {
    /// Whether the process is permitted to mount a disk.
    package static let mayMount: Bool = {
        guard let folder = try? makeFolder() else { return false }
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let isMounted = mount(at: folder, size: "64k")
        if isMounted { unmount(folder) }
        return isMounted
    }()

    /// Calls `body` with the directory of a small disk, which is unmounted afterward.
    ///
    /// `size` has the format of the `size` option of `mount`.
    package static func with(
        size: String = "6m",
        _ body: (String) async throws -> Void
    ) async throws {
        let folder = try makeFolder()
        defer { try? FileManager.default.removeItem(atPath: folder) }
        guard mount(at: folder, size: size) else {
            throw Missing()
        }
        defer { unmount(folder) }
        try await body(folder)
    }

    /// Makes a disk read-only and returns whether that succeeded.
    package static func makeReadOnly(_ folder: String) -> Bool {
        #if os(Linux)
        Glibc.mount(nil, folder, nil, UInt(MS_REMOUNT | MS_RDONLY), nil) == 0
        #else
        false
        #endif
    }

    /// The error that is thrown if the disk cannot be mounted.
    package struct Missing: Error {}

    private static func makeFolder() throws -> String {
        let folder = FileManager.default.temporaryDirectory
            .appending(path: "tideline-disk-" + UUID().uuidString.lowercased()).path()
        try FileManager.default.createDirectory(
            atPath: folder,
            withIntermediateDirectories: true
        )
        return folder
    }

    private static func mount(at folder: String, size: String) -> Bool {
        #if os(Linux)
        // Does not run a program, because Foundation's Process reads past the end of a buffer of
        // the C library.
        Glibc.mount("tideline", folder, "tmpfs", 0, "size=\(size)") == 0
        #else
        false
        #endif
    }

    private static func unmount(_ folder: String) {
        #if os(Linux)
        // Unmounts the disk even if a store has open files on it.
        _ = umount2(folder, Int32(MNT_DETACH))
        #endif
    }
}
