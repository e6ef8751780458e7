// SyncLog: the log of a client. It has the levels and metadata of swift-log, but does not use that
// package.
//
// A message is a fixed sentence; everything variable is in its metadata. Neither one ever contains
// the contents of a row, a token or a query.

/// The level of a log entry, with the names that swift-log uses.
public enum SyncLogLevel: String, Sendable, Hashable, CaseIterable, Comparable {
    /// Each request, page and accepted operation.
    case trace
    /// The start and end of pushes and pulls.
    case debug
    /// Temporary conditions that require no action, such as an unreachable server.
    case info
    /// Events that an app may want to show.
    case notice
    /// Conditions that require the app to act, such as a rejected operation or a rejected pull.
    case warning
    /// Currently not used by the client.
    case error
    /// Currently not used by the client.
    case critical

    /// Orders the levels from `trace` to `critical`.
    public static func < (left: SyncLogLevel, right: SyncLogLevel) -> Bool {
        left.weight < right.weight
    }

    private var weight: Int { Self.allCases.firstIndex(of: self) ?? 0 }
}

/// A log of what a client does; see
/// ``SyncClient/init(endpoint:generation:transport:authentication:limits:log:appName:appVersion:allowsInsecureEndpoint:environment:)``.
///
/// For [swift-log](https://github.com/apple/swift-log), this adapter is enough:
///
/// ```text
/// import Logging
///
/// struct SwiftLog: SyncLog {
///     var logger = Logger(label: "sync")
///
///     func log(level: SyncLogLevel, message: StaticString, metadata: [String: String]) {
///         let level = Logger.Level(rawValue: level.rawValue) ?? .debug
///         logger.log(level: level, "\(message)", metadata: metadata.mapValues { .string($0) })
///     }
/// }
/// ```
public protocol SyncLog: Sendable {
    /// Writes an entry to the log.
    ///
    /// The client calls it on any thread, possibly on several threads at the same time. It should
    /// not block.
    func log(level: SyncLogLevel, message: StaticString, metadata: [String: String])
}

/// A log entry that has not been written yet.
package struct SyncLogEntry: Sendable {
    package var level: SyncLogLevel
    package var message: StaticString
    package var metadata: [String: String]

    init(_ level: SyncLogLevel, _ message: StaticString, _ metadata: [String: String] = [:]) {
        self.level = level
        self.message = message
        self.metadata = metadata
    }
}

extension SyncLog {
    func write(_ entry: SyncLogEntry) {
        log(level: entry.level, message: entry.message, metadata: entry.metadata)
    }
}

extension SyncEvent {
    /// The log entry for the event.
    package var logEntry: SyncLogEntry {
        let metadata = logMetadata
        switch payload {
        case .pushStarted: return SyncLogEntry(.debug, "A push began.", metadata)
        case .operationCompleted:
            return SyncLogEntry(.trace, "The server accepted an operation.", metadata)
        case .operationParked:
            return SyncLogEntry(.warning, "An operation was parked.", metadata)
        case .pushFinished: return SyncLogEntry(.debug, "A push ended.", metadata)
        case .pullStarted: return SyncLogEntry(.debug, "A pull began.", metadata)
        case .pageApplied: return SyncLogEntry(.trace, "Rows were stored.", metadata)
        case .pullFinished: return SyncLogEntry(.debug, "A pull ended.", metadata)
        case .pullFailed: return failure("A pull failed.", metadata)
        case .restoredServer:
            return SyncLogEntry(.notice, "The server was restored from a backup.", metadata)
        case .schemaCompared(let differences):
            return differences == 0
                ? SyncLogEntry(.debug, "App and server have the same tables.", metadata)
                : SyncLogEntry(.warning, "App and server have different tables.", metadata)
        case .verifyStarted: return SyncLogEntry(.debug, "A verification began.", metadata)
        case .rangeCompared: return SyncLogEntry(.trace, "Rows were compared.", metadata)
        case .verifyFinished(_, let result):
            return SyncLogEntry(
                result.isEqual ? .debug : .notice,
                "A verification ended.",
                metadata
            )
        case .verifyFailed: return failure("A verification failed.", metadata)
        case .purgeFinished: return SyncLogEntry(.debug, "A purge ended.", metadata)
        case .rowsRemoved: return SyncLogEntry(.trace, "Rows were removed.", metadata)
        case .rowsChanged: return SyncLogEntry(.trace, "Rows were changed.", metadata)
        case .rowsMoved: return SyncLogEntry(.trace, "Rows were moved.", metadata)
        case .checkStarted: return SyncLogEntry(.debug, "A check of the store began.", metadata)
        case .tableChecked: return SyncLogEntry(.trace, "A table was checked.", metadata)
        case .checkFinished(let problems):
            return SyncLogEntry(problems == 0 ? .debug : .warning, "A check ended.", metadata)
        case .checkFailed: return failure("A check failed.", metadata)
        }
    }

    private func failure(
        _ message: StaticString,
        _ metadata: [String: String]
    ) -> SyncLogEntry {
        let passes = code == .offline || code == .cancelled
        return SyncLogEntry(passes ? .info : .warning, message, metadata)
    }

    private var logMetadata: [String: String] {
        var metadata: [String: String] = [:]
        metadata["table"] = table
        metadata["id"] = itemID
        metadata["operation"] = operation.map { "\($0)" }
        metadata["code"] = code?.description
        let counts = [
            ("pending", pending), ("completed", completed), ("parked", parked),
            ("applied", applied), ("removed", removed), ("missing", missing),
            ("different", different), ("surplus", surplus), ("repaired", repaired),
            ("problems", problems), ("lost", lost), ("differences", differences),
        ]
        for (name, count) in counts { metadata[name] = count.map(String.init) }
        return metadata
    }
}
