// ProcessUse: the resources of the process, which are read from the system for the metrics.

import Foundation

/// Memory, processor time, descriptors and disk of the process; nil for values that the system does not report.
package struct ProcessUse: Sendable {
    package var memoryBytes: Int?
    package var processorSeconds: Double?
    package var descriptors: Int?
    package var descriptorsMax: Int?
    /// The free bytes of the database's file system.
    package var diskFreeBytes: Int?
    package var diskBytes: Int?

    package init() {}

    /// Reads the values from the system.
    ///
    /// - Parameter path: The file of the database; nil without one.
    /// - Returns: The values.
    package static func now(disk path: String?) -> ProcessUse {
        var use = ProcessUse()
        let pages = text("/proc/self/statm").split(separator: " ").dropFirst().first
        use.memoryBytes = pages.flatMap { Int($0) }.map { $0 * Int(sysconf(Int32(_SC_PAGESIZE))) }
        var time = timespec()
        if clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) == 0 {
            use.processorSeconds = Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
        }
        // One of the descriptors is open for reading the folder.
        let open = try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")
        use.descriptors = open.map { max(0, $0.count - 1) }
        let most = text("/proc/self/limits").split(separator: "\n")
            .first { $0.hasPrefix("Max open files") }
        use.descriptorsMax = most?.split(separator: " ").lazy.compactMap { Int($0) }.first
        var disk = statvfs()
        if let path, statvfs(path, &disk) == 0 {
            use.diskFreeBytes = Int(clamping: UInt64(disk.f_bavail) * UInt64(disk.f_frsize))
            use.diskBytes = Int(clamping: UInt64(disk.f_blocks) * UInt64(disk.f_frsize))
        }
        return use
    }

    private static func text(_ path: String) -> String {
        FileManager.default.contents(atPath: path).map { String(decoding: $0, as: UTF8.self) } ?? ""
    }
}
