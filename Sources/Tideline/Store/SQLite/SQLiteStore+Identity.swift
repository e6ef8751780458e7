// SQLiteStore+Identity: an identifier of the store's file, which a copy does not share.

import Foundation
import TidelineCore

#if !canImport(Darwin)
import Glibc
#endif

extension SQLiteStore {
    /// The number of the file in its file system, with the time of its creation (Apple platforms) or an
    /// identifier of the file system.
    ///
    /// A copy has a different number, and so does a file that was moved to another volume or restored to another
    /// device. Nil for a store in memory.
    public var fileIdentity: String? {
        guard path != ":memory:" else { return nil }
        let file = URL(filePath: path).resolvingSymlinksInPath().path(percentEncoded: false)
        guard let attributes = try? FileManager.default.attributesOfItem(atPath: file),
            let number = (attributes[.systemFileNumber] as? NSNumber)?.uint64Value
        else { return nil }
        #if canImport(Darwin)
        // The device numbers may change when the system restarts.
        guard let birth = attributes[.creationDate] as? Date else { return nil }
        return "\(number)-\(Timestamp(birth).microseconds)"
        #else
        var volume = statvfs()
        guard statvfs(file, &volume) == 0 else { return nil }
        return "\(number)-\(volume.f_fsid)"
        #endif
    }
}
