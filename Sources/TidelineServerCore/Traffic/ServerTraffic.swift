// ServerTraffic: what connections hold and what became of them, shared by all event loops.

import Synchronization

package final class ServerTraffic: Sendable {
    /// The answers that were made and not yet taken.
    package let answers: AnswerMemory
    /// The bytes of all requests under way, but for what a usual head has.
    package let requestBytes = Counter()
    /// Which tables changed, for those who listen.
    package let events = EventBoard()
    /// Streams of events that are open.
    package let listeners = Counter()
    /// Callers that were cut because they read too slowly while memory was short.
    package let slowReaders = Counter()
    /// Callers that left while their request ran.
    package let hangUps = Counter()
    /// Lines of the log that were lost because nobody took them.
    package let logLinesLost: Counter

    package init(answersBytesMax: Int = 64 << 20, logLinesLost: Counter = Counter()) {
        answers = AnswerMemory(bytesMax: answersBytesMax)
        self.logLinesLost = logLinesLost
    }

    package final class Counter: Sendable {
        private let value = Atomic<Int>(0)

        package init() {}

        /// - Returns: What it is behind that.
        @discardableResult
        package func add(_ amount: Int = 1) -> Int {
            value.wrappingAdd(amount, ordering: .relaxed).newValue
        }

        package var current: Int { value.load(ordering: .relaxed) }
    }
}
