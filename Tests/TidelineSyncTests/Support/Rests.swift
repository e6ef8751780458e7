// Rests, CountingStore: who sleeps until a test lets it go on, and how often a store was read.

import Foundation
import Synchronization
import Tideline
import TidelineCore
import TidelineTestKit

/// Sleeps that end when the test says so.
final class Rests: Sendable {
    private struct State {
        var sleepers: [CheckedContinuation<Void, Never>] = []
        var count = 0
        var isOpen = false
    }

    private let state = Mutex(State())

    /// How many sleeps have begun.
    var count: Int { state.withLock { $0.count } }

    var environment: SyncEnvironment {
        SyncEnvironment(
            now: { Date(timeIntervalSince1970: 1_800_000_000) },
            makeID: { UUID().uuidString.lowercased() },
            fraction: { 0 },
            sleep: { [self] _ in
                await withCheckedContinuation { sleeper in
                    let goesOn = state.withLock { state in
                        state.count += 1
                        if !state.isOpen { state.sleepers.append(sleeper) }
                        return state.isOpen
                    }
                    if goesOn { sleeper.resume() }
                }
                try Task.checkCancellation()
            }
        )
    }

    /// Lets those that sleep go on, and from now on everybody where `forAll` says so.
    func end(forAll: Bool = false) {
        let sleepers = state.withLock { state in
            defer { state.sleepers = [] }
            if forAll { state.isOpen = true }
            return state.sleepers
        }
        for sleeper in sleepers { sleeper.resume() }
    }
}

/// Counts the reads of a store.
final class CountingStore: ForwardingStore {
    let inner: any LocalStore = MemoryStore()
    private let count = Mutex(0)

    var reads: Int { count.withLock { $0 } }

    func read<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreReader) throws -> Result
    ) async throws -> Result {
        count.withLock { $0 += 1 }
        return try await inner.read(body)
    }
}
