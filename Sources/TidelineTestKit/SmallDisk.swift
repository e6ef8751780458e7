// SmallDisk: a disk that is soon full, in memory.

import Foundation

#if os(Linux)
import Glibc
#endif

/// Disks of a few megabytes, where they may be mounted.
package enum SmallDisk {
    /// Whether there may be one here.
    package static let mayMount: Bool = {
        guard let folder = try? makeFolder() else { return false }
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let isMounted = mount(at: folder, size: "64k")
        if isMounted { unmount(folder) }
        return isMounted
    }()

    /// A small disk, gone when the test ends; `size` as `mount` takes it.
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

    /// Makes a disk read-only; returns whether that succeeded.
    package static func makeReadOnly(_ folder: String) -> Bool {
        #if os(Linux)
        Glibc.mount(nil, folder, nil, UInt(MS_REMOUNT | MS_RDONLY), nil) == 0
        #else
        false
        #endif
    }

    /// It was not mounted.
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
        // Not by a program: Foundation's Process reads past a buffer of the C library's.
        Glibc.mount("tideline", folder, "tmpfs", 0, "size=\(size)") == 0
        #else
        false
        #endif
    }

    private static func unmount(_ folder: String) {
        #if os(Linux)
        // Also while a store has files open there.
        _ = umount2(folder, Int32(MNT_DETACH))
        #endif
    }
}
