// Progress: shows progress.
//
// The order of the calls is init -> take* -> end. `end` removes the line, even if the work failed.

import Foundation
import Synchronization
import TidelineServer
import TidelineServerCore

/// A progress line for long work, on standard error if that is a terminal.
final class Progress: Sendable {
    /// The state of the work; `whole` is the total, or nil if it is unknown.
    struct Amount: Sendable {
        var part = ""
        var done: Int64 = 0
        var whole: Int64?
        var unit = ""
    }

    private struct State {
        var amount = Amount()
        var isOver = false
    }

    private let task: String
    private let measure: (@Sendable () -> Amount?)?
    /// The start time, in microseconds since 1970.
    private let start = ServerEnvironment.live.now()
    private let state = Mutex(State())

    private static let interval: TimeInterval = 0.2

    /// Shows a task; returns nil if the output is JSON or standard error is not a terminal.
    ///
    /// The line is updated several times a second from `measure`. Without `measure`, the work calls `take`.
    init?(_ task: String, isJSON: Bool, measure: (@Sendable () -> Amount?)? = nil) {
        guard !isJSON, isatty(STDERR_FILENO) == 1 else { return nil }
        self.task = task
        self.measure = measure
        show()
        Thread.detachNewThread { [weak self] in
            repeat { Thread.sleep(forTimeInterval: Self.interval) } while self?.show() == true
        }
    }

    /// Adds finished work to a part.
    func take(_ part: String, _ count: Int) {
        state.withLock { state in
            if state.amount.part != part { state.amount = Amount(part: part) }
            state.amount.done += Int64(count)
        }
    }

    /// Removes the line from the terminal.
    func end() {
        state.withLock { state in
            guard !state.isOver else { return }
            state.isOver = true
            Self.write("\r\u{1B}[K")
        }
    }

    /// Writes the line; returns false after the work has ended.
    @discardableResult
    private func show() -> Bool {
        let measured = measure?()
        return state.withLock { state in
            guard !state.isOver else { return false }
            if let measured { state.amount = measured }
            let seconds = max(0, ServerEnvironment.live.now() - start) / 1_000_000
            Self.write("\r\u{1B}[K\(task)\(Self.text(state.amount)), \(seconds) s")
            return true
        }
    }

    private static func text(_ amount: Amount) -> String {
        let part = amount.part.isEmpty ? "" : " \(amount.part)"
        let unit = amount.unit.isEmpty ? "" : " \(amount.unit)"
        guard let whole = amount.whole, whole > 0 else {
            return amount.done > 0 ? "\(part) \(amount.done)\(unit)" : part
        }
        // The source may grow during the copy.
        let percent = min(99, amount.done * 100 / whole)
        return "\(part) \(percent) % of \(whole)\(unit)"
    }

    private static func write(_ text: String) {
        let bytes = Array(text.utf8)
        _ = Foundation.write(STDERR_FILENO, bytes, bytes.count)
    }
}

extension Progress {
    /// Returns the progress of a file's backup; nil for PostgreSQL, which other tools back up.
    static func ofBackup(
        _ configuration: ServerConfiguration,
        to file: String,
        _ isJSON: Bool
    ) -> Progress? {
        guard case .sqlite(let path) = configuration.database else { return nil }
        return ofCopy("backup", isJSON: isJSON, of: path, to: file + ".partial-\(getpid())")
    }

    /// Returns the progress of a file's restore; nil for PostgreSQL.
    static func ofRestore(
        _ configuration: ServerConfiguration,
        from backup: String,
        _ isJSON: Bool
    ) -> Progress? {
        guard case .sqlite(let path) = configuration.database else { return nil }
        let copy = path + ".restoring.partial-\(getpid())"
        return ofCopy("restore", isJSON: isJSON, of: backup, to: copy)
    }

    /// Returns the progress of a copy that grows to about the size of a file.
    private static func ofCopy(
        _ task: String,
        isJSON: Bool,
        of source: String,
        to copy: String
    ) -> Progress? {
        let whole = [source, source + "-wal"].reduce(0) { $0 + (size(of: $1) ?? 0) }
        return Progress(task, isJSON: isJSON) {
            Amount(done: size(of: copy) ?? 0, whole: whole, unit: "bytes")
        }
    }

    private static func size(of path: String) -> Int64? {
        var status = stat()
        return stat(path, &status) == 0 ? Int64(status.st_size) : nil
    }
}
