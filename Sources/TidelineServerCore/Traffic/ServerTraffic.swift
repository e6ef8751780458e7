// ServerTraffic: memory and counters.

import Synchronization

/// The memory and the counters of connections, shared by all event loops.
package final class ServerTraffic: Sendable {
    /// The memory for answers to single reads, and to endpoints.
    package let answers: ResponseMemory
    /// The memory for the answers to batches that read, which keep their first answers until the last ones are built.
    package let batchReads: ResponseMemory
    /// The memory for the answers to writes, and to batches that only write; they do not wait for reads.
    package let writeAnswers: ResponseMemory
    /// The memory for decompressed batches while they are processed.
    package let codedBatches: ResponseMemory
    /// The bytes of all requests in progress that exceed a usual head.
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
    /// The number of connections that were closed so that new ones could be accepted.
    package let connectionsEvicted = Counter()
    /// The number of connections and streams that were rejected because their callers had too many.
    package let connectionsLimited = Counter()
    /// The log of reached limits and the callers that reach them.
    package let warnings = LimitWarnings()
    /// The number of requests that were rejected because their callers exceeded a limit.
    package let tooMany = Counter()
    /// The number of requests that were rejected because of their tokens.
    package let tokensRejected = Counter()
    /// The callers of rejected requests.
    package let rejections = RejectionLog()
    /// The metrics of the database.
    package let store = StoreMetrics()
    /// The durations of the turns of each event loop.
    ///
    /// Each loop has its own histogram, so that loops do not wait for each other.
    private let loops = Mutex<[Histogram]>([])
    /// The open event streams.
    package let listeners = Counter()
    /// The number of callers that were disconnected because they read too slowly while memory was short.
    package let slowReaders = Counter()
    /// The number of callers that disconnected before their request was answered.
    package let hangUps = Counter()
    /// The number of connections that failed during the TLS handshake.
    package let failedHandshakes = Counter()
    /// The number of log lines that were lost because the output was blocked.
    package let logLinesLost: Counter

    package init(answersBytesMax: Int = 64 << 20, logLinesLost: Counter = Counter()) {
        answers = ResponseMemory(bytesMax: answersBytesMax)
        let part = max(1, answersBytesMax / Self.additionalParts)
        batchReads = ResponseMemory(bytesMax: part)
        writeAnswers = ResponseMemory(bytesMax: part)
        codedBatches = ResponseMemory(bytesMax: part)
        self.logLinesLost = logLinesLost
    }

    /// Batches that read, writes, and compressed batches each get this fraction, a quarter, of the memory for
    /// answers in addition.
    private static let additionalParts = 4

    /// All memory for answers.
    package var memories: [ResponseMemory] { [answers, batchReads, writeAnswers] }

    /// The bytes of all answers that are built but not yet sent.
    package var reservedAnswerBytes: Int { memories.reduce(0) { $0 + $1.reservedBytes } }

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
