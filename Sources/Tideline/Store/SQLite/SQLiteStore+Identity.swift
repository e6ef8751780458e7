// SQLiteStore+Identity: an identifier of the store's file, which is different for a copy.

import Foundation
import TidelineCore

#if !canImport(Darwin)
import Glibc
#endif

extension SQLiteStore {
    /// The file number in its file system, combined with the creation time (Apple platforms) or an
    /// identifier of the file system.
    ///
    /// A copy has a different identifier, and so does a file that was moved to another volume or
    /// restored to another device. Nil for a store in memory.
    public var fileIdentity: String? {
        guard path != ":memory:" else { return nil }
        let file = URL(filePath: path).resolvingSymlinksInPath().path(percentEncoded: false)
        guard let attributes = try? FileManager.default.attributesOfItem(atPath: file),
            let number = (attributes[.systemFileNumber] as? NSNumber)?.uint64Value
        else { return nil }
        #if canImport(Darwin)
        // Device numbers may change when the system restarts, so the creation date is used instead.
        guard let birth = attributes[.creationDate] as? Date else { return nil }
        return "\(number)-\(Timestamp(birth).microseconds)"
        #else
        var volume = statvfs()
        guard statvfs(file, &volume) == 0 else { return nil }
        return "\(number)-\(volume.f_fsid)"
        #endif
    }
}
