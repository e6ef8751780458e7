// LossyNetwork: a transport that drops, doubles and delays what goes through it, by a seed.

import Foundation
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
    /// A write is refused before it arrives: 403 without an effect.
    public var refuse = 0
    /// A write is done, and the answer says so without the row: 204.
    public var empty = 0
    /// Only the first requests of a batch arrive, and the answer is lost.
    public var cut = 0
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
        faults.refuse = 3
        faults.empty = 4
        faults.cut = 6
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
        case refuse
        case empty
        /// So many of ten.
        case cut(Int)
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
        let (fate, before, after) = draw(request)
        try await time.sleep(before)
        switch fate {
        case .deliver:
            break
        case .dropRequest:
            throw Self.lost
        case .busy:
            return TransportResponse(status: 503)
        case .refuse:
            return TransportResponse(status: 403)
        case .empty:
            let answer = try await inner.send(request)
            try await time.sleep(after)
            let isSuccess = answer.status == 200 || answer.status == 201
            return isSuccess ? TransportResponse(status: 204) : answer
        case .cut(let tenths):
            _ = try await inner.send(Self.cut(request, tenths))
            try await time.sleep(after)
            throw Self.lost
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

    /// Opens a stream, whose connection breaks after a while if the network is bad.
    public func stream(_ request: TransportRequest) async throws -> TransportStream {
        let (before, life) = state.withLock { state in
            let most = state.faults.delayMax.milliseconds
            let before = Duration.milliseconds(Int64.random(in: 0...most, using: &state.generator))
            let life = Duration.milliseconds(Int64.random(in: 1...30_000, using: &state.generator))
            return (before, state.faults.dropAnswer > 0 ? life : nil)
        }
        try await time.sleep(before)
        var stream = try await inner.stream(request)
        guard let life else { return stream }
        let (bytes, continuation) = AsyncThrowingStream<[UInt8], any Error>.makeStream()
        let source = stream.bytes
        let forwarding = time.start {
            do {
                for try await piece in source { continuation.yield(piece) }
                continuation.finish()
            } catch {
                continuation.finish(throwing: error)
            }
        }
        let end = time.start { [time] in
            try await time.sleep(life)
            continuation.finish(throwing: Self.lost)
        }
        continuation.onTermination = { _ in
            forwarding.cancel()
            end.cancel()
        }
        stream.bytes = bytes
        return stream
    }

    private static let lost = TransportError(
        .connectionLost,
        "The simulated network lost the call.",
        outcomeIsUnknown: true
    )

    /// A batch of which only the first requests arrive.
    private static func cut(_ request: TransportRequest, _ tenths: Int) -> TransportRequest {
        guard let body = request.body,
            var batch = try? JSONSerialization.jsonObject(with: Data(body)) as? [String: Any],
            let requests = batch["requests"] as? [Any]
        else { return request }
        batch["requests"] = Array(requests.prefix(requests.count * tenths / 10))
        let options: JSONSerialization.WritingOptions = [.sortedKeys, .withoutEscapingSlashes]
        guard let data = try? JSONSerialization.data(withJSONObject: batch, options: options) else {
            return request
        }
        var result = request
        result.body = Array(data)
        return result
    }

    private func draw(_ request: TransportRequest) -> (Fate, Duration, Duration) {
        state.withLock { state in
            let faults = state.faults
            let most = faults.delayMax.milliseconds
            let before = Duration.milliseconds(Int64.random(in: 0...most, using: &state.generator))
            let after = Duration.milliseconds(Int64.random(in: 0...most, using: &state.generator))
            var dice = Int.random(in: 0..<100, using: &state.generator)
            let later = Duration.milliseconds(
                Int64.random(in: 1...20_000, using: &state.generator)
            )
            let tenths = Int.random(in: 0..<10, using: &state.generator)
            let isBatch = request.url.path().hasSuffix("/$batch")
            let isWrite = !isBatch && request.method != "GET"
            let fates: [(Int, Fate)] = [
                (faults.dropRequest, .dropRequest), (faults.dropAnswer, .dropAnswer),
                (faults.double, .double(later: later)), (faults.late, .late(later)),
                (faults.busy, .busy), (isWrite ? faults.refuse : 0, .refuse),
                (isWrite ? faults.empty : 0, .empty), (isBatch ? faults.cut : 0, .cut(tenths)),
            ]
            for (percent, fate) in fates {
                if dice < percent { return (fate, before, after) }
                dice -= percent
            }
            return (.deliver, before, after)
        }
    }
}

extension Duration {
    fileprivate var milliseconds: Int64 {
        let (seconds, attoseconds) = components
        return seconds * 1000 + attoseconds / 1_000_000_000_000_000
    }
}
