// LossyNetwork: a transport that drops, duplicates, and delays requests at random, from a seed.

import Foundation
import Synchronization
public import Tideline
import TidelineCore
import TidelineServerCore

/// The faults of a network; most of them are percentages of requests.
public struct NetworkFaults: Sendable, Hashable {
    /// The request is lost, and the caller loses the connection.
    public var dropRequest = 0
    /// The request reaches the server, but its response is lost.
    public var dropAnswer = 0
    /// The request reaches the server twice, the second time immediately or much later.
    public var double = 0
    /// The caller loses the connection, but the request reaches the server later.
    public var late = 0
    /// The response is 503, and the request never reaches the server.
    public var busy = 0
    /// A gateway rejects a write with 403, and the write never reaches the server.
    public var refuse = 0
    /// A write succeeds, but its response is 204 without the row.
    public var empty = 0
    /// Only the first requests of a batch reach the server, and the response is lost.
    public var cut = 0
    /// One request of a batch is rejected with 403 and never reaches the server.
    public var refuseOne = 0
    /// One request of a batch succeeds, but its response is 204 without the row.
    public var emptyOne = 0
    /// A delta link has a different epoch, which simulates a restore of the server's database.
    public var otherEpoch = 0
    /// A gateway responds with its own page, and the request never reaches the server.
    public var page = 0
    /// Whether a gateway's page may be a success without a body.
    ///
    /// A device can recognize such a page only if the server confirms the idempotency key in each
    /// response.
    public var allowsEmptySuccess = false
    /// Whether a gateway removes the `Prefer` header from every request, which makes a batch stop
    /// at its first failure.
    public var dropsPrefer = false
    /// The maximum size of a body in either direction, in bytes; nil for no limit.
    ///
    /// A larger body breaks the connection.
    public var bytesMax: Int?
    /// The maximum delay per direction.
    public var delayMax: Duration = .zero

    /// A network without faults.
    public init() {}

    /// A bad network, with frequent faults.
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

/// A transport that simulates network faults, in simulated time.
public final class LossyNetwork: Transport {
    private struct State {
        var generator: SeededGenerator
        var faults: NetworkFaults

        mutating func drawPage() -> GatewayPage {
            GatewayPage(
                using: &generator,
                allowsEmptySuccess: faults.allowsEmptySuccess
            )
        }
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
        /// Only the given tenths of a batch, from its start, reach the server.
        case cut(Int)
        /// The request at a position in tenths of the batch is rejected.
        case refuseOne(Int)
        /// The response to the request at a position in tenths of the batch has no row.
        case emptyOne(Int)
        case otherEpoch
        case page(GatewayPage)
    }

    private let inner: any Transport
    private let time: VirtualTime
    private let state: Mutex<State>

    /// Creates a network with faults between a client and `inner`.
    public init(_ inner: any Transport, time: VirtualTime, seed: UInt64, faults: NetworkFaults) {
        self.inner = inner
        self.time = time
        state = Mutex(State(generator: SeededGenerator(seed: seed), faults: faults))
    }

    /// Replaces the faults, for example to end all of them.
    public func set(_ faults: NetworkFaults) {
        state.withLock { $0.faults = faults }
    }

    /// Sends a request, to which the faults apply.
    public func send(_ request: TransportRequest) async throws -> TransportResponse {
        let (fate, before, after) = draw(request)
        try await time.sleep(before)
        let faults = state.withLock { $0.faults }
        let bytesMax = faults.bytesMax ?? .max
        guard request.body?.count ?? 0 <= bytesMax else { throw Self.lost }
        var request = request
        if faults.dropsPrefer { request.headers["Prefer"] = nil }
        let response = try await send(request, fate, after)
        guard response.body.count <= bytesMax else { throw Self.lost }
        return response
    }

    private func send(
        _ request: TransportRequest,
        _ fate: Fate,
        _ after: Duration
    ) async throws -> TransportResponse {
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
            _ = try await inner.send(BatchChanges.cut(request, tenths))
            try await time.sleep(after)
            throw Self.lost
        case .refuseOne(let tenths):
            let (rest, rejections) = BatchChanges.withoutOne(request, tenths)
            let answer = try await inner.send(rest)
            try await time.sleep(after)
            return BatchChanges.adding(rejections, to: answer)
        case .emptyOne(let tenths):
            let answer = try await inner.send(request)
            try await time.sleep(after)
            return BatchChanges.emptyingOne(answer, tenths)
        case .otherEpoch:
            let answer = try await inner.send(Self.ofAnotherEpoch(request))
            try await time.sleep(after)
            return answer
        case .page(let page):
            return page.response
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

    /// Opens a stream; if the network loses responses, the stream's connection breaks after some
    /// time.
    public func stream(_ request: TransportRequest) async throws -> TransportStream {
        let (before, life, page) = state.withLock { state in
            let most = state.faults.delayMax.milliseconds
            let before = Duration.milliseconds(Int64.random(in: 0...most, using: &state.generator))
            let life = Duration.milliseconds(Int64.random(in: 1...30_000, using: &state.generator))
            let hasPage = state.faults.page > 0 && state.generator.chance(state.faults.page)
            let page = hasPage ? state.drawPage() : nil
            return (before, state.faults.dropAnswer > 0 ? life : nil, page)
        }
        try await time.sleep(before)
        if let page { return page.stream }
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

    /// Returns a request with a delta link that has a different epoch, which simulates a link from
    /// before a restore of the database.
    private static func ofAnotherEpoch(_ request: TransportRequest) -> TransportRequest {
        guard let query = request.url.query(percentEncoded: true),
            let name = query.firstRange(of: "deltatoken="),
            var token = DeltaToken(String(query[name.upperBound...].prefix { $0 != "&" })),
            var parts = URLComponents(url: request.url, resolvingAgainstBaseURL: false)
        else { return request }
        token.scope.epoch.bits &+= 1
        let rest = query[name.upperBound...].drop { $0 != "&" }
        parts.percentEncodedQuery = query[..<name.upperBound] + token.text + rest
        var result = request
        result.url = parts.url ?? request.url
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
            let isDelta = request.url.query()?.contains("deltatoken=") == true
            let isWrite = !isBatch && request.method != "GET"
            let fates: [(Int, Fate)] = [
                (faults.dropRequest, .dropRequest), (faults.dropAnswer, .dropAnswer),
                (faults.double, .double(later: later)), (faults.late, .late(later)),
                (faults.busy, .busy), (isWrite ? faults.refuse : 0, .refuse),
                (isWrite ? faults.empty : 0, .empty), (isBatch ? faults.cut : 0, .cut(tenths)),
                (isBatch ? faults.refuseOne : 0, .refuseOne(tenths)),
                (isBatch ? faults.emptyOne : 0, .emptyOne(tenths)),
                (isDelta ? faults.otherEpoch : 0, .otherEpoch),
            ]
            for (percent, fate) in fates {
                if dice < percent { return (fate, before, after) }
                dice -= percent
            }
            if dice < faults.page { return (.page(state.drawPage()), before, after) }
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
