// Rests, CountingStore: sleeps that a test ends, and a store that counts its reads.

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

    /// The number of sleeps that have started.
    var count: Int { state.withLock { $0.count } }

    var environment: SyncEnvironment {
        SyncEnvironment(
            now: { Date(timeIntervalSince1970: 1_800_000_000) },
            makeID: { UUID().uuidString.lowercased() },
            fraction: { 0 },
            sleep: { [self] _ in
                await withCheckedContinuation { sleeper in
                    let isFinished = state.withLock { state in
                        state.count += 1
                        if !state.isOpen { state.sleepers.append(sleeper) }
                        return state.isOpen
                    }
                    if isFinished { sleeper.resume() }
                }
                try Task.checkCancellation()
            }
        )
    }

    /// Ends the current sleeps, and all later ones if `forAll`.
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
