// ReadTurns: decides which read a reader takes next. Pure.
//
// A read that may be long waits among the first attempts. If it uses up its time slice while other callers wait, it is
// interrupted and waits among the restarted reads. Some readers never take restarted reads, so a first attempt is soon
// executed, whatever other callers request.

/// The queue of the reads that wait for a reader, and of the readers that wait for a read.
package struct ReadTurns<Element> {
    /// A kind of reader: which reads it performs.
    package enum Reader: Hashable, Sendable, CaseIterable {
        /// Brief reads only.
        case brief
        /// First attempts and brief reads.
        case first
        /// All reads.
        case all
    }

    /// The progress of a read.
    package enum Line: Hashable, Sendable {
        case brief
        case first
        case restarted
    }

    private var brief = TurnQueue<ReadCaller, Element>()
    private var first = TurnQueue<ReadCaller, Element>()
    private var restarted = TurnQueue<ReadCaller, Element>()
    /// The readers that wait to be woken.
    private var idle: [Reader: Int] = [:]
    /// The numbers of running restarted reads, by caller.
    private var running: [ReadCaller: Int] = [:]
    /// The number of readers that take all reads.
    private let readersOfAll: Int
    /// Whether the next read of a reader that takes all reads is a restarted one.
    private var isRestartedNext = false
    /// Whether the store is closing, so that every reader takes all reads.
    package var isEnding = false

    package init(readersOfAll: Int) { self.readersOfAll = readersOfAll }

    /// Adds a read.
    ///
    /// - Returns: The reader to wake; nil if all readers that take such a read are in use.
    package mutating func append(
        _ element: Element,
        of caller: ReadCaller,
        _ line: Line
    ) -> Reader? {
        let readers: [Reader]
        switch line {
        case .brief:
            brief.append(element, of: caller)
            readers = [.brief, .first, .all]
        case .first:
            first.append(element, of: caller)
            readers = [.all, .first]
        case .restarted:
            restarted.append(element, of: caller)
            readers = [.all]
        }
        for reader in readers where idle[reader, default: 0] > 0 {
            idle[reader, default: 0] -= 1
            return reader
        }
        return nil
    }

    /// Takes the next read; nil if there is none, in which case the reader waits.
    package mutating func take(as reader: Reader) -> (element: Element, line: Line)? {
        let next = next(as: isEnding ? .all : reader)
        if next == nil, !isEnding { idle[reader, default: 0] += 1 }
        return next
    }

    private mutating func next(as reader: Reader) -> (element: Element, line: Line)? {
        switch reader {
        case .brief: break
        case .first: if let read = first.take() { return (read, .first) }
        case .all:
            isRestartedNext.toggle()
            if isRestartedNext, let read = takeRestarted() { return (read, .restarted) }
            if let read = first.take() { return (read, .first) }
            if let read = takeRestarted() { return (read, .restarted) }
        }
        return brief.take().map { ($0, .brief) }
    }

    /// Takes a restarted read.
    ///
    /// One caller cannot occupy all the readers that take such reads, if there are several.
    private mutating func takeRestarted() -> Element? {
        let most = isEnding ? Int.max : max(1, readersOfAll - 1)
        let running = running
        guard let (caller, read) = restarted.takeFirst(where: { running[$0, default: 0] < most })
        else { return nil }
        self.running[caller, default: 0] += 1
        return read
    }

    /// Records that a restarted read has ended, or is waiting again.
    package mutating func ended(of caller: ReadCaller, _ line: Line) {
        guard line == .restarted, let count = running[caller] else { return }
        running[caller] = count > 1 ? count - 1 : nil
    }

    /// Returns whether another caller waits for a reader.
    package func otherCallersWait(than caller: ReadCaller, for reader: Reader) -> Bool {
        switch reader {
        case .brief: brief.hasCallers(otherThan: caller)
        case .first: first.hasCallers(otherThan: caller)
        case .all: first.hasCallers(otherThan: caller) || restarted.hasCallers(otherThan: caller)
        }
    }
}

/// The time slice of a read: how long it continues while other callers wait.
package enum ReadTimeSlice {
    /// The time slice of a first attempt, in nanoseconds.
    package static let first: UInt64 = 200_000_000

    /// The maximum number of restarts of a read; after that, it runs to completion.
    package static let restartsMax = 4

    /// Returns the time slice of a read after this many restarts; nil if it is no longer interrupted.
    ///
    /// Each time slice is twice as long as the previous one, so that a long read completes.
    package static func nanoseconds(restarts: Int) -> UInt64? {
        restarts < restartsMax ? first << UInt64(restarts) : nil
    }
}
