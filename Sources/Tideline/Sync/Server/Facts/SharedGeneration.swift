// SharedGeneration: the known generation of a client's server.

import Synchronization

/// The memory of the server's generation, shared by all requests of a client.
final class SharedGeneration: Sendable {
    private struct State {
        var memory: GenerationMemory
        /// The dialect in the store.
        var stored: ServerDialect?
    }

    private let state: Mutex<State>

    init(_ setting: ServerGeneration) { state = Mutex(State(memory: GenerationMemory(setting))) }

    var dialect: ServerDialect { state.withLock { $0.memory.dialect } }

    /// Whether the app specified the generation, or a response in this run showed it.
    var isKnown: Bool { state.withLock { $0.memory.isKnown } }

    /// The dialect that has not been stored yet; a store without a dialect stands for datasync.
    var unstored: ServerDialect? {
        state.withLock { state in
            state.memory.learned.flatMap { $0 == state.stored ?? .datasync ? nil : $0 }
        }
    }

    /// Sets the dialect that was read from the store.
    func recall(_ dialect: ServerDialect?) {
        state.withLock { state in
            state.stored = dialect
            state.memory.remember(dialect)
        }
    }

    func noteStored(_ dialect: ServerDialect) { state.withLock { $0.stored = dialect } }

    func note(_ signs: AnswerSigns, asked: ServerDialect) -> Bool {
        state.withLock { $0.memory.note(signs, asked: asked) }
    }
}
