// RecordingLog: a log whose entries tests read.

import Synchronization
import Tideline

/// A log of a client that keeps its entries.
final class RecordingLog: SyncLog {
    struct Entry: Sendable {
        var level: SyncLogLevel
        var message: String
        var metadata: [String: String]
    }

    private let state = Mutex<[Entry]>([])

    var entries: [Entry] { state.withLock { $0 } }

    func log(level: SyncLogLevel, message: StaticString, metadata: [String: String]) {
        let entry = Entry(level: level, message: "\(message)", metadata: metadata)
        state.withLock { $0.append(entry) }
    }
}
