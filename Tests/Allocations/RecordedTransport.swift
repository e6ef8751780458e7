// RecordingTransport, ReplayingTransport: the responses of a server, recorded once and then repeated.
//
// The server allocates in the same process, so it must not work while a client is measured.

import Synchronization
import Tideline

struct RecordedExchange: Sendable {
    var method: String
    var body: [UInt8]?
    var response: TransportResponse
}

/// Sends requests to a server and keeps the responses.
final class RecordingTransport: Transport {
    private let server: any Transport
    private let exchanges = Mutex<[RecordedExchange]>([])

    init(_ server: any Transport) { self.server = server }

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        let response = try await server.send(request)
        exchanges.withLock { exchanges in
            exchanges.append(
                RecordedExchange(method: request.method, body: request.body, response: response)
            )
        }
        return response
    }

    func stream(_ request: TransportRequest) async throws -> TransportStream {
        throw WrongResult("a client opened a stream of events")
    }

    /// Returns a transport that repeats the responses so far.
    func replay() -> ReplayingTransport { ReplayingTransport(exchanges.withLock { $0 }) }
}

/// Repeats recorded responses to the same requests in the same order; allocates nothing.
final class ReplayingTransport: Transport {
    private let exchanges: [RecordedExchange]
    private let next = Mutex(0)

    init(_ exchanges: [RecordedExchange]) { self.exchanges = exchanges }

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        let index = next.withLock { index in
            defer { index += 1 }
            return index
        }
        guard index < exchanges.count, exchanges[index].method == request.method,
            exchanges[index].body == request.body
        else { throw WrongResult("request \(index + 1) is not the one that was recorded") }
        return exchanges[index].response
    }

    func stream(_ request: TransportRequest) async throws -> TransportStream {
        throw WrongResult("a client opened a stream of events")
    }
}

/// A network without a server.
struct NoServer: Transport {
    func send(_ request: TransportRequest) async throws -> TransportResponse {
        throw WrongResult("a request without a server")
    }

    func stream(_ request: TransportRequest) async throws -> TransportStream {
        throw WrongResult("a request without a server")
    }
}
