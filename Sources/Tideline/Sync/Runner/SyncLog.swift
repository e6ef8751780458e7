// SyncLog: where the client writes what it does, in the shape of swift-log, which it does not need.
//
// A message is a fixed sentence; what varies stands beside it. Nothing of a row's contents, no token
// and no query is ever among that.

/// How much an entry of a log matters: the levels of swift-log, by the same names.
public enum SyncLogLevel: String, Sendable, Hashable, CaseIterable, Comparable {
    /// Each request, page and accepted operation.
    case trace
    /// Pushes and pulls as they begin and end.
    case debug
    /// What passes by itself: the server is out of reach.
    case info
    /// What an app may want to show.
    case notice
    /// What waits for the app: a rejected operation, a pull that was refused.
    case warning
    /// Not used by the client today.
    case error
    /// Not used by the client today.
    case critical

    /// The order of weight.
    public static func < (left: SyncLogLevel, right: SyncLogLevel) -> Bool {
        left.weight < right.weight
    }

    private var weight: Int { Self.allCases.firstIndex(of: self) ?? 0 }
}

/// Writes down what a client does; see ``SyncClient/init(endpoint:generation:transport:authentication:limits:log:appName:appVersion:allowsInsecureEndpoint:environment:)``.
///
/// For [swift-log](https://github.com/apple/swift-log) these lines are the adapter:
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
    /// Writes an entry; called on any thread, often several at a time, and should not wait.
    func log(level: SyncLogLevel, message: StaticString, metadata: [String: String])
}

/// An entry before it is written.
struct SyncLogEntry: Sendable {
    var level: SyncLogLevel
    var message: StaticString
    var metadata: [String: String]

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
    /// What the log says of it.
    var logEntry: SyncLogEntry {
        let metadata = logMetadata
        switch kind {
        case .pushStarted: return SyncLogEntry(.debug, "A push begins.", metadata)
        case .operationCompleted:
            return SyncLogEntry(.trace, "The server accepted an operation.", metadata)
        case .operationParked:
            return SyncLogEntry(.warning, "An operation waits for the app.", metadata)
        case .pushFinished: return SyncLogEntry(.debug, "A push ended.", metadata)
        case .pullStarted: return SyncLogEntry(.debug, "A pull begins.", metadata)
        case .pageApplied: return SyncLogEntry(.trace, "Rows were stored.", metadata)
        case .pullFinished: return SyncLogEntry(.debug, "A pull ended.", metadata)
        case .pullFailed: return failure("A pull failed.", metadata)
        case .restoredServer:
            return SyncLogEntry(.notice, "The server was restored from a backup.", metadata)
        case .verifyStarted: return SyncLogEntry(.debug, "A verification begins.", metadata)
        case .rangeCompared: return SyncLogEntry(.trace, "Rows were compared.", metadata)
        case .verifyFinished:
            let isEqual = [missing, different, surplus].allSatisfy { $0 ?? 0 == 0 }
            return SyncLogEntry(isEqual ? .debug : .notice, "A verification ended.", metadata)
        case .verifyFailed: return failure("A verification failed.", metadata)
        case .purgeFinished: return SyncLogEntry(.debug, "A purge ended.", metadata)
        case .rowsRemoved: return SyncLogEntry(.trace, "Rows were removed.", metadata)
        case .rowsChanged: return SyncLogEntry(.trace, "Rows were changed.", metadata)
        case .rowsMoved: return SyncLogEntry(.trace, "Rows were moved.", metadata)
        case .checkStarted: return SyncLogEntry(.debug, "A check of the store begins.", metadata)
        case .tableChecked: return SyncLogEntry(.trace, "A table was checked.", metadata)
        case .checkFinished:
            let isSound = problems ?? 0 == 0
            return SyncLogEntry(isSound ? .debug : .warning, "A check ended.", metadata)
        case .checkFailed: return failure("A check failed.", metadata)
        default: return SyncLogEntry(.debug, "Something happened.", metadata)
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
            ("problems", problems), ("lost", lost),
        ]
        for (name, count) in counts { metadata[name] = count.map(String.init) }
        return metadata
    }
}
