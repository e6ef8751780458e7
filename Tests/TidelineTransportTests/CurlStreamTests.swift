// CurlStreamTests: responses that are read while they arrive.

import Foundation
import Testing
import Tideline
import TidelineCore

#if canImport(CCurl)
extension TransportTests {
    @Suite struct CurlStreamTests {
        private let server = FaultyServer.shared
        private let transport = CurlTransport()

        private func stream(
            _ path: String,
            within timeout: Duration = .seconds(20)
        ) async throws -> TransportStream {
            try await transport.stream(TransportRequest(url: server.url(path), timeout: timeout))
        }

        @Test("Bytes of a stream can be read before the server has sent the whole response")
        func piecesComeWhileTheAnswerGoesOn() async throws {
            let stream = try await stream("/fault/drips/fin/always/stream-drips")
            #expect(stream.status == 200)
            #expect(stream.headers["Content-Length"] == "100000")
            var count = 0
            for try await piece in stream.bytes {
                count += piece.count
                if count >= 5 { break }
            }
            #expect((5..<100_000).contains(count))
        }

        @Test("A stream returns every byte once") func everyByteComesOnce() async throws {
            var bytes: [UInt8] = []
            for try await piece in try await stream("/big/300000").bytes { bytes += piece }
            #expect(bytes == [UInt8](repeating: 0x79, count: 300_000))
        }

        @Test(
            "A connection that breaks during a stream is an error",
            arguments: ["halfBody", "halfChunk", "noLastChunk"],
            ["fin", "rst"]
        )
        func aBrokenConnectionIsAnError(fault: String, end: String) async throws {
            await #expect(throws: TransportError.self) {
                let stream = try await stream("/fault/\(fault)/\(end)/always/stream-\(fault)")
                for try await _ in stream.bytes {}
            }
        }

        @Test("The timeout limits the wait for the head of a stream")
        func theTimeoutBoundsTheWaitForTheHead() async throws {
            let error = await #expect(throws: TransportError.self) {
                _ = try await stream(
                    "/fault/never/fin/always/stream-never",
                    within: .milliseconds(200)
                )
            }
            #expect(error?.code == .timedOut)
        }

        @Test("A transport without streams reports that they are unsupported")
        func aTransportWithoutStreamsSaysSo() async throws {
            struct Plain: Transport {
                func send(_ request: TransportRequest) async throws -> TransportResponse {
                    TransportResponse(status: 200)
                }
            }
            let error = await #expect(throws: TransportError.self) {
                _ = try await Plain().stream(TransportRequest(url: server.url("/ok")))
            }
            #expect(error?.code == .unsupported)
        }
    }
}
#endif
