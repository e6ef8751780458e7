// RelationNetwork: a network that loses requests and responses, and a gateway that rejects single
// writes.

import Foundation
import Synchronization
import Tideline

/// The network of a device, with faults that are drawn from a seed.
final class RelationNetwork: Transport {
    private enum Fate {
        case deliver
        case dropRequest
        case dropAnswer
        case busy
        case double
        /// Only this many tenths of a batch arrive.
        case cut(Int)
        /// A gateway rejects one request of a batch; its position is given in tenths of the batch.
        case refuseOne(Int)
        /// The response to one request of a batch has no row; its position is given in tenths of
        /// the batch.
        case emptyOne(Int)
        /// The server fails to process some requests of a batch, or rejects them.
        case failSome(status: Int)
    }

    private let inner: any Transport
    /// The delay before each request arrives, and before its response arrives.
    private let delay: @Sendable () async throws -> Void
    private let state: Mutex<(random: SeededGenerator, hasFaults: Bool)>

    init(
        _ inner: any Transport,
        seed: UInt64,
        delay: @escaping @Sendable () async throws -> Void
    ) {
        (self.inner, self.delay) = (inner, delay)
        state = Mutex((SeededGenerator(seed: seed), true))
    }

    func endFaults() { state.withLock { $0.hasFaults = false } }

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        try await delay()
        let response = try await deliver(request)
        try await delay()
        return response
    }

    private func deliver(_ request: TransportRequest) async throws -> TransportResponse {
        switch fate(of: request) {
        case .deliver: return try await inner.send(request)
        case .dropRequest: throw Self.lost
        case .dropAnswer:
            _ = try await inner.send(request)
            throw Self.lost
        case .busy: return TransportResponse(status: 503)
        case .double:
            let response = try await inner.send(request)
            _ = try await inner.send(request)
            return response
        case .cut(let tenths):
            _ = try await inner.send(BatchChanges.cut(request, tenths))
            throw Self.lost
        case .refuseOne(let tenths):
            let (rest, rejections) = BatchChanges.withoutOne(request, tenths)
            return BatchChanges.adding(rejections, to: try await inner.send(rest))
        case .emptyOne(let tenths):
            return BatchChanges.emptyingOne(try await inner.send(request), tenths)
        case .failSome(let status):
            let problem = Array(#"{"title":"Rejected","status":\#(status)}"#.utf8)
            let (rest, responses) = BatchChanges.without(request) { _, _, _ in
                state.withLock { $0.random.chance(30) } ? (status, problem) : nil
            }
            return BatchChanges.adding(responses, to: try await inner.send(rest))
        }
    }

    private func fate(of request: TransportRequest) -> Fate {
        let isBatch = request.url.path().hasSuffix("/$batch")
        return state.withLock { state in
            guard state.hasFaults else { return .deliver }
            let dice = state.random.below(100)
            let tenths = state.random.below(10)
            switch dice {
            case 0..<5: return .dropRequest
            case 5..<12: return .dropAnswer
            case 12..<15: return .busy
            case 15..<19: return .double
            case 19..<23 where isBatch: return .cut(tenths)
            case 23..<29 where isBatch: return .refuseOne(tenths)
            case 29..<33 where isBatch: return .emptyOne(tenths)
            case 33..<43 where isBatch:
                return .failSome(status: state.random.pick([400, 403, 500, 500]))
            default: return .deliver
            }
        }
    }

    private static let lost = TransportError(
        .connectionLost,
        "The simulated network lost the request.",
        outcomeIsUnknown: true
    )
}
