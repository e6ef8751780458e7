// WALCheckpointer: when the log is copied and restarted.
//
// Pure: its input is pages and reads, and its output one step. SQLite restarts a log that is completely copied to the
// database, but only while no connection reads from the log. With reads that always overlap, the log would grow
// forever:
//
//     from copyBytes  the log is copied during reads and writes, and restarted between long reads
//     from half       new long reads wait until it was restarted
//     from logBytes   running long reads are cancelled; they restart after those that wait
//
// Brief reads end soon, so restarts wait for them.

/// The state machine of WAL checkpoints, and of the reads that wait for them.
package struct WALCheckpointer: Sendable {
    package enum Step: Hashable, Sendable {
        /// Do nothing until a commit or the end of a read.
        case rest
        /// Copy as much as possible.
        case copy
        /// Interrupt the long reads.
        case interrupt
        /// Copy the remaining pages and restart the log.
        case restart
    }

    /// The number of failed restarts of the log, without a long read on this server, after which other programs
    /// are assumed to be the cause.
    private static let failuresMax = 3

    private let bytesMax: Int
    private let pageBytes: Int
    private var pages = 0
    /// The size of the log at the last attempt to copy it, and at the last failed restart.
    private var pagesAtCopy = 0
    private var pagesAtRestart = 0
    private var failures = 0
    private var longReads = 0
    /// Whether a long read ran during the last attempt to restart the log.
    private var hadLongRead = false
    /// Whether another program has a long read, so that waiting for this server's reads does not help.
    package private(set) var hasExternalReader = false
    /// Whether long reads have to wait.
    package private(set) var isClosed = false
    /// The number of times that long reads were interrupted.
    package private(set) var interruptions = 0

    package init(bytesMax: Int, pageBytes: Int) {
        self.bytesMax = bytesMax
        self.pageBytes = pageBytes + Self.headBytes
    }

    /// The size of a page's header in the log.
    private static let headBytes = 24

    private var copyPages: Int { max(bytesMax / 3 / pageBytes, 1) }
    /// The growth of the log between two steps of the same kind.
    private var stepPages: Int { max(copyPages / 4, 1) }

    private var mayRestart: Bool {
        guard failures > 0 else { return true }
        // Each attempt delays the writes, so there are fewer of them the longer other programs prevent a restart.
        let growth = failures < Self.failuresMax ? 0 : max(stepPages, pagesAtRestart / 4)
        return pages >= pagesAtRestart + growth
    }

    /// The size of the log after the last commit.
    package var bytes: Int { pages * pageBytes }

    /// Whether a step may be due after a commit.
    package var isCopyDue: Bool { pages >= copyPages }

    package mutating func committed(pages: Int) {
        if pages < self.pages { resetCounts() }
        self.pages = pages
    }

    /// Begins a long read; returns false if it has to wait.
    package mutating func longReadBegins() -> Bool {
        guard !isClosed else { return false }
        longReads += 1
        hadLongRead = true
        return true
    }

    package mutating func longReadEnded() { longReads -= 1 }

    package mutating func next() -> Step {
        guard isCopyDue else { return .rest }
        if hasExternalReader, mayRestart { hasExternalReader = false }
        if bytes >= bytesMax / 2, !hasExternalReader { isClosed = true }
        if pagesAtCopy == 0 || pages - pagesAtCopy >= stepPages {
            pagesAtCopy = pages
            return .copy
        }
        if longReads == 0 {
            guard mayRestart else { return .rest }
            hadLongRead = false
            return .restart
        }
        guard bytes >= bytesMax, isClosed else { return .rest }
        interruptions += 1
        return .interrupt
    }

    /// Records the result of a restart.
    package mutating func restarted(_ isDone: Bool) {
        guard !isDone else {
            pages = 0
            return resetCounts()
        }
        pagesAtRestart = pages
        guard !hadLongRead else { return }
        failures += 1
        guard failures >= Self.failuresMax else { return }
        hasExternalReader = true
        isClosed = false
    }

    private mutating func resetCounts() {
        pagesAtCopy = 0
        pagesAtRestart = 0
        failures = 0
        hasExternalReader = false
        isClosed = false
    }
}
