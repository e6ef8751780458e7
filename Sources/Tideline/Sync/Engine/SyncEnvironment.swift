// SyncEnvironment: the client's clock, ids, random numbers, sleep and networks.
//
// All other code of the client gets the time, ids, random numbers and waits from here; a repository
// test checks this rule. The test kit's simulation replaces them.

public import Foundation
import Synchronization
import TidelineCore

/// The environment of a client: its clock, ids, random numbers and waits.
///
/// ```swift
/// var environment = SyncEnvironment.live
/// environment.now = { Date(timeIntervalSince1970: 1_800_000_000) }
/// let client = SyncClient(endpoint: url, environment: environment)
/// ```
public struct SyncEnvironment: Sendable {
    /// The wall clock, which is used for display and request headers, never to order changes or to
    /// resolve conflicts.
    public var now: @Sendable () -> Date
    /// Returns an id for a new row: a lower-case UUID.
    public var makeID: @Sendable () -> String
    /// Returns an id by which the server's operators can tell devices apart; if nil, requests have
    /// no such id.
    ///
    /// The client calls the closure once for each store, and saves the id there. In ``live`` the id
    /// is a random UUID, which contains no information about the device, the app or the person. The
    /// initializer sets nil.
    public var makeInstallationID: (@Sendable () -> String)?
    /// Returns a random number in `0..<1`, for the jitter of retries.
    public var fraction: @Sendable () -> Double
    /// Waits for a duration; throws an error if the task is cancelled.
    public var sleep: @Sendable (Duration) async throws -> Void
    /// Returns a stream that emits true when a network becomes available, and false when it is
    /// lost.
    package var networkPaths: @Sendable () -> AsyncStream<Bool> = { NetworkPaths.changes() }
    /// Waits in real time to limit a call into the app, even in a test whose ``sleep`` takes no
    /// time.
    package var timeLimit: @Sendable (Duration) async throws -> Void = {
        try await Task.sleep(for: $0)
    }

    /// The time since a fixed moment, independent of the wall clock; nil if the environment has no
    /// such clock.
    package var uptime: @Sendable () -> Duration? = { nil }

    /// Creates an environment from its parts.
    public init(
        now: @escaping @Sendable () -> Date,
        makeID: @escaping @Sendable () -> String,
        fraction: @escaping @Sendable () -> Double,
        sleep: @escaping @Sendable (Duration) async throws -> Void
    ) {
        self.now = now
        self.makeID = makeID
        self.fraction = fraction
        self.sleep = sleep
    }

    private static let randomWords = Mutex(RandomWords())

    /// The environment outside of tests.
    public static let live: SyncEnvironment = {
        var environment = SyncEnvironment(
            now: { Date() },
            makeID: {
                let milliseconds = Int64(Date().timeIntervalSince1970 * 1000)
                return TimeOrderedID.make(
                    milliseconds: milliseconds,
                    random: randomWords.withLock { $0.pair() }
                )
            },
            fraction: { Double.random(in: 0..<1) },
            sleep: { try await Task.sleep(for: $0) }
        )
        let start = ContinuousClock.now
        environment.uptime = { ContinuousClock.now - start }
        environment.makeInstallationID = { UUID().uuidString.lowercased() }
        return environment
    }()
}
