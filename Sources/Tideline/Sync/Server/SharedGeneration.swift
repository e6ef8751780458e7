// SharedGeneration: the generation memory of one client, for all that send.

import Synchronization

final class SharedGeneration: Sendable {
    private struct State {
        var memory: GenerationMemory
        /// What the store holds.
        var stored: ServerDialect?
    }

    private let state: Mutex<State>

    init(_ setting: ServerGeneration) { state = Mutex(State(memory: GenerationMemory(setting))) }

    var dialect: ServerDialect { state.withLock { $0.memory.dialect } }

    /// Whether the app or an answer of this run told it.
    var isKnown: Bool { state.withLock { $0.memory.isKnown } }

    /// What was learned and is not in the store; that nothing is there means datasync.
    var unstored: ServerDialect? {
        state.withLock { state in
            state.memory.learned.flatMap { $0 == state.stored ?? .datasync ? nil : $0 }
        }
    }

    /// Takes in what the store holds.
    func recall(_ dialect: ServerDialect?) {
        state.withLock { state in
            state.stored = dialect
            state.memory.remember(dialect)
        }
    }

    func markStored(_ dialect: ServerDialect) { state.withLock { $0.stored = dialect } }

    func hear(_ signs: AnswerSigns, asked: ServerDialect) -> Bool {
        state.withLock { $0.memory.hear(signs, asked: asked) }
    }
}
