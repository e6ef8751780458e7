// ReadRunner: runs closures of the app on one state of the store, once or as an observation.

import TidelineCore
import TidelineSQLite

/// A wrapper that carries an error of the app's closure through the store unchanged.
struct AppError: Error {
    let error: any Error

    /// Returns the app's error that a store error wraps, or else the store error itself.
    static func unwrapped(_ error: SyncError) -> any Error {
        (error.cause as? AppError)?.error ?? error
    }
}

/// A runner of the app's reads.
struct ReadRunner {
    let engine: SyncEngine

    /// Runs a closure of the app on one committed state; returns its result, and what it has read if `isRecording`.
    func run<Result: Sendable>(
        isRecording: Bool = false,
        _ body: @escaping @Sendable (SyncReader) throws -> Result
    ) async throws -> (result: Result, region: ReadRegion) {
        // A task that prefers an executor, such as a task of a simulation, stays on that executor.
        if withUnsafeCurrentTask(body: { $0?.unownedTaskExecutor }) != nil {
            return try await runHere(isRecording: isRecording, body)
        }
        return try await withTaskExecutorPreference(ClosureThreads.shared) {
            try await runHere(isRecording: isRecording, body)
        }
    }

    /// Runs a closure on the thread that the task runs on.
    private func runHere<Result: Sendable>(
        isRecording: Bool,
        _ body: @escaping @Sendable (SyncReader) throws -> Result
    ) async throws -> (result: Result, region: ReadRegion) {
        do {
            return try await untilCancelled { stop in
                try await engine.read { [engine] queue in
                    let reader = SyncReader(
                        queue.store,
                        engine,
                        stop,
                        isRecording: isRecording
                    )
                    defer { reader.end() }
                    let result: Result
                    do {
                        result = try body(reader)
                    } catch let error as SyncError {
                        throw reader.failure ?? error
                    } catch {
                        throw reader.failure ?? AppError(error: error)
                    }
                    if let failure = reader.failure { throw failure }
                    return (result, reader.region ?? ReadRegion())
                }
            }
        } catch let error as SyncError {
            throw AppError.unwrapped(error)
        }
    }
}

/// The result of a closure of the app, and the rows and conditions that it has read.
struct ObservedReads<Value: Sendable>: Observed {
    private let engine: SyncEngine
    private let body: @Sendable (SyncReader) throws -> Value
    /// Returns whether two results are equal; nil if they cannot be compared.
    private let isSame: (@Sendable (Value, Value) -> Bool)?
    private var region = ReadRegion()
    private var last: Value?

    init(
        _ engine: SyncEngine,
        isSame: (@Sendable (Value, Value) -> Bool)?,
        _ body: @escaping @Sendable (SyncReader) throws -> Value
    ) {
        (self.engine, self.body, self.isSame) = (engine, body, isSame)
    }

    mutating func run() async throws -> Value? {
        let (value, region) = try await ReadRunner(engine: engine).run(isRecording: true, body)
        self.region = region
        guard let isSame else { return value }
        if let last, isSame(last, value) { return nil }
        last = value
        return value
    }

    func isReached(by change: StoreChange) -> Bool { region.isReached(by: change) }
}
