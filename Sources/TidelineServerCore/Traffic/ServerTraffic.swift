// ServerTraffic: the memory and the counters of connections, shared by all event loops.

import Synchronization

package final class ServerTraffic: Sendable {
    /// The answers that were made and not yet taken: to reads by themselves, and of endpoints.
    package let answers: AnswerMemory
    /// Those of batches that read, which hold their first answers while the last ones are made.
    package let batchReads: AnswerMemory
    /// Those of writes, and of batches that only write: they wait for no reads.
    package let writeAnswers: AnswerMemory
    /// The memory for decompressed batches while they are processed.
    package let codedBatches: AnswerMemory
    /// The bytes of all requests under way, but for what a usual head has.
    package let requestBytes = Counter()
    /// Which tables changed, for those who listen.
    package let events = EventBoard()
    /// Connections that are open, streams of events among them.
    package let connections = Counter()
    /// The same by address.
    package let callerConnections = CallerCounts()
    /// Streams of events by caller.
    package let callerListeners = CallerCounts()
    /// The bytes of requests under way by address.
    package let callerBytes = CallerCounts()
    /// Connections that were closed to make room for new ones.
    package let connectionsEvicted = Counter()
    /// Connections and streams that were rejected because their callers had too many.
    package let connectionsLimited = Counter()
    /// Says which limits are reached, and by whom.
    package let warnings = LimitWarnings()
    /// Requests that were rejected because their callers asked for too much.
    package let tooMany = Counter()
    /// Requests that were rejected for their tokens.
    package let tokensRefused = Counter()
    /// The callers of rejected requests.
    package let refusals = RefusalNotes()
    /// The metrics of the database.
    package let store = StoreMetrics()
    /// How long the turns of each event loop take; each has its own, so that none waits for others.
    private let loops = Mutex<[Histogram]>([])
    /// Streams of events that are open.
    package let listeners = Counter()
    /// Callers that were cut because they read too slowly while memory was short.
    package let slowReaders = Counter()
    /// Callers that left while their request ran.
    package let hangUps = Counter()
    /// Connections that ended before both sides had agreed on keys.
    package let failedHandshakes = Counter()
    /// The number of log lines that were lost because the output was blocked.
    package let logLinesLost: Counter

    package init(answersBytesMax: Int = 64 << 20, logLinesLost: Counter = Counter()) {
        answers = AnswerMemory(bytesMax: answersBytesMax)
        let part = max(1, answersBytesMax / Self.besideAnswers)
        batchReads = AnswerMemory(bytesMax: part)
        writeAnswers = AnswerMemory(bytesMax: part)
        codedBatches = AnswerMemory(bytesMax: part)
        self.logLinesLost = logLinesLost
    }

    /// The divisor of the additional memory for batches that read, for writes, and for compressed batches each.
    private static let besideAnswers = 4

    /// All memory for answers.
    package var memories: [AnswerMemory] { [answers, batchReads, writeAnswers] }

    /// The bytes of all answers that were made and not yet taken.
    package var answersHeld: Int { memories.reduce(0) { $0 + $1.held } }

    /// Where one more event loop counts its turns.
    package func addLoop() -> Histogram {
        let turns = Histogram()
        loops.withLock { $0.append(turns) }
        return turns
    }

    /// The turns of all event loops.
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
