// ServerTraffic: the memory and the counters of connections, shared by all event loops.

import Synchronization

package final class ServerTraffic: Sendable {
    /// The memory for answers to single reads, and to endpoints.
    package let answers: ResponseMemory
    /// The memory for the answers to batches that read, which keep their first answers until the last ones are built.
    package let batchReads: ResponseMemory
    /// The memory for the answers to writes, and to batches that only write; they do not wait for reads.
    package let writeAnswers: ResponseMemory
    /// The memory for decompressed batches while they are processed.
    package let codedBatches: ResponseMemory
    /// The bytes of all requests in progress, beyond those of a usual header.
    package let requestBytes = Counter()
    /// The tables that changed, for the event streams.
    package let events = EventBoard()
    /// The open connections, including event streams.
    package let connections = Counter()
    /// The open connections by address.
    package let callerConnections = CallerCounts()
    /// The event streams by caller.
    package let callerListeners = CallerCounts()
    /// The bytes of requests in progress by address.
    package let callerBytes = CallerCounts()
    /// Connections that were closed so that new ones could be accepted.
    package let connectionsEvicted = Counter()
    /// Connections and streams that were rejected because their callers had too many.
    package let connectionsLimited = Counter()
    /// Logs the limits that are reached, and the callers that reach them.
    package let warnings = LimitWarnings()
    /// Requests that were rejected because their callers exceeded a limit.
    package let tooMany = Counter()
    /// Requests that were rejected because of their tokens.
    package let tokensRefused = Counter()
    /// The callers of rejected requests.
    package let refusals = RejectionLog()
    /// The metrics of the database.
    package let store = StoreMetrics()
    /// How long the iterations of each event loop take.
    ///
    /// Each loop has its own histogram, so that none waits for others.
    private let loops = Mutex<[Histogram]>([])
    /// The open event streams.
    package let listeners = Counter()
    /// Callers that were disconnected because they read too slowly while memory was short.
    package let slowReaders = Counter()
    /// Callers that disconnected while their request ran.
    package let hangUps = Counter()
    /// Connections that failed during the TLS handshake.
    package let failedHandshakes = Counter()
    /// Log lines that were lost because the output was blocked.
    package let logLinesLost: Counter

    package init(answersBytesMax: Int = 64 << 20, logLinesLost: Counter = Counter()) {
        answers = ResponseMemory(bytesMax: answersBytesMax)
        let part = max(1, answersBytesMax / Self.besideAnswers)
        batchReads = ResponseMemory(bytesMax: part)
        writeAnswers = ResponseMemory(bytesMax: part)
        codedBatches = ResponseMemory(bytesMax: part)
        self.logLinesLost = logLinesLost
    }

    /// Batches that read, writes, and compressed batches each have this fraction of the memory for answers in
    /// addition.
    private static let besideAnswers = 4

    /// All memory for answers.
    package var memories: [ResponseMemory] { [answers, batchReads, writeAnswers] }

    /// The bytes of all answers that are built and not yet taken.
    package var answersHeld: Int { memories.reduce(0) { $0 + $1.held } }

    /// Adds a histogram for another event loop.
    package func addLoop() -> Histogram {
        let turns = Histogram()
        loops.withLock { $0.append(turns) }
        return turns
    }

    /// The iteration times of all event loops.
    var loopTurns: Histogram.Reading {
        loops.withLock { $0 }.map(\.reading).reduce(.empty(Histogram.times), +)
    }

    package final class Counter: Sendable {
        private let value = Atomic<Int>(0)

        package init() {}

        /// - Returns: The value after the addition.
        @discardableResult
        package func add(_ amount: Int = 1) -> Int {
            value.wrappingAdd(amount, ordering: .relaxed).newValue
        }

        package var current: Int { value.load(ordering: .relaxed) }

        /// Sets a measured value.
        package func set(_ amount: Int) { value.store(amount, ordering: .relaxed) }
    }
}
