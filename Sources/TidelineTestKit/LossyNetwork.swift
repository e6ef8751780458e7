// LossyNetwork: a transport that drops, doubles and delays what goes through it, by a seed.

import Synchronization
public import Tideline
import TidelineCore

/// What a network does to requests, in per cent of them.
public struct NetworkFaults: Sendable, Hashable {
    /// The request is lost: nothing arrives, and the caller sees a lost connection.
    public var dropRequest = 0
    /// The request arrives, its answer is lost.
    public var dropAnswer = 0
    /// The request arrives twice; the second time at once or much later.
    public var double = 0
    /// The caller gives up, and the request arrives later all the same.
    public var late = 0
    /// The server seems busy: 503 without an effect.
    public var busy = 0
    /// The longest delay of each way.
    public var delayMax: Duration = .zero

    /// A network without faults.
    public init() {}

    /// A bad network: each of the faults often.
    public static let bad: NetworkFaults = {
        var faults = NetworkFaults()
        faults.dropRequest = 8
        faults.dropAnswer = 12
        faults.double = 10
        faults.late = 6
        faults.busy = 5
        faults.delayMax = .seconds(4)
        return faults
    }()
}

/// A transport with faults, in simulated time.
public final class LossyNetwork: Transport {
    private struct State {
        var generator: SeededGenerator
        var faults: NetworkFaults
    }

    private enum Fate {
        case deliver
        case dropRequest
        case dropAnswer
        case double(later: Duration)
        case late(Duration)
        case busy
    }

    private let inner: any Transport
    private let time: VirtualTime
    private let state: Mutex<State>

    /// Puts faults in front of `inner`.
    public init(_ inner: any Transport, time: VirtualTime, seed: UInt64, faults: NetworkFaults) {
        self.inner = inner
        self.time = time
        state = Mutex(State(generator: SeededGenerator(seed: seed), faults: faults))
    }

    /// Replaces the faults, for instance by none.
    public func set(_ faults: NetworkFaults) {
        state.withLock { $0.faults = faults }
    }

    /// Sends a request through the faults.
    public func send(_ request: TransportRequest) async throws -> TransportResponse {
        let (fate, before, after) = draw()
        try await time.sleep(before)
        switch fate {
        case .deliver:
            break
        case .dropRequest:
            throw Self.lost
        case .busy:
            return TransportResponse(status: 503)
        case .dropAnswer:
            _ = try await inner.send(request)
            try await time.sleep(after)
            throw Self.lost
        case .late(let later):
            time.start { [inner, time] in
                try await time.sleep(later)
                _ = try await inner.send(request)
            }
            throw Self.lost
        case .double(let later):
            let answer = try await inner.send(request)
            time.start { [inner, time] in
                try await time.sleep(later)
                _ = try await inner.send(request)
            }
            try await time.sleep(after)
            return answer
        }
        let answer = try await inner.send(request)
        try await time.sleep(after)
        return answer
    }

    private static let lost = TransportError(
        .connectionLost,
        "The simulated network lost the call.",
        outcomeIsUnknown: true
    )

    private func draw() -> (Fate, Duration, Duration) {
        state.withLock { state in
            let faults = state.faults
            let (seconds, attoseconds) = faults.delayMax.components
            let most = seconds * 1000 + attoseconds / 1_000_000_000_000_000
            let before = Duration.milliseconds(Int64.random(in: 0...most, using: &state.generator))
            let after = Duration.milliseconds(Int64.random(in: 0...most, using: &state.generator))
            var dice = Int.random(in: 0..<100, using: &state.generator)
            let later = Duration.milliseconds(
                Int64.random(in: 1...20_000, using: &state.generator)
            )
            let fates: [(Int, Fate)] = [
                (faults.dropRequest, .dropRequest), (faults.dropAnswer, .dropAnswer),
                (faults.double, .double(later: later)), (faults.late, .late(later)),
                (faults.busy, .busy),
            ]
            for (percent, fate) in fates {
                if dice < percent { return (fate, before, after) }
                dice -= percent
            }
            return (.deliver, before, after)
        }
    }
}
