// LogWriter: writes the log.
//
// The process at the other end may stop reading. Then lines wait here up to a limit, and later ones are dropped and
// counted; event loops and database writers never wait for the log.

import Foundation
import Synchronization
import TidelineServerCore

/// A writer of log lines to a descriptor, with its own thread.
package final class LogWriter: Sendable {
    private struct State {
        var lines: [[UInt8]] = []
        var bytes = 0
        /// The number of lines dropped since the last one that was accepted.
        var lost = 0
        var isWriting = false
        var isStarted = false
    }

    /// The writer for standard error, whose last lines are written when the process exits.
    package static let standardError: LogWriter = {
        atexit { LogWriter.standardError.flush() }
        return LogWriter(STDERR_FILENO)
    }()

    /// The total number of dropped lines.
    package let lost = ServerTraffic.Counter()

    private let descriptor: Int32
    private let bytesMax: Int
    private let state = Mutex(State())
    private let wake = DispatchSemaphore(value: 0)

    package init(_ descriptor: Int32, bytesMax: Int = 1 << 20) {
        self.descriptor = descriptor
        self.bytesMax = bytesMax
    }

    /// Accepts a line, or drops it if too many wait.
    ///
    /// - Returns: The number of lines that were dropped before this one, if it is the first to be accepted
    ///   afterwards.
    package func put(_ line: [UInt8]) -> Int {
        var isFirst = false
        var isNew = false
        let lostBefore = state.withLock { state -> Int in
            guard state.bytes + line.count <= bytesMax else {
                state.lost += 1
                lost.add()
                return 0
            }
            isNew = !state.isStarted
            state.isStarted = true
            isFirst = state.lines.isEmpty
            state.lines.append(line)
            state.bytes += line.count
            defer { state.lost = 0 }
            return state.lost
        }
        if isNew { start() }
        if isFirst { wake.signal() }
        return lostBefore
    }

    /// Waits until all lines are written, for a second at most.
    package func flush() {
        for _ in 0..<Self.flushTries {
            let isDone = state.withLock { $0.lines.isEmpty && !$0.isWriting }
            if isDone { return }
            usleep(Self.flushMicroseconds)
        }
    }

    private static let flushTries = 200
    private static let flushMicroseconds: UInt32 = 5000

    private func start() {
        let thread = Thread { [self] in
            while true {
                wake.wait()
                writeAll()
            }
        }
        thread.name = "tideline-log"
        thread.start()
    }

    private func writeAll() {
        while true {
            let lines = state.withLock { state in
                defer { state.lines = [] }
                state.isWriting = !state.lines.isEmpty
                return state.lines
            }
            if lines.isEmpty { return }
            for line in lines {
                write(line)
                // The bytes count as waiting until they are written.
                state.withLock { $0.bytes -= line.count }
            }
        }
    }

    private func write(_ line: [UInt8]) {
        var rest = line[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                Foundation.write(descriptor, $0.baseAddress, $0.count)
            }
            if count > 0 {
                rest = rest.dropFirst(count)
            } else if count < 0, errno == EAGAIN {
                var ready = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                poll(&ready, 1, -1)
            } else if count == 0 || errno != EINTR {
                // A dropped line is not a reason to fail.
                lost.add()
                return
            }
        }
    }
}
