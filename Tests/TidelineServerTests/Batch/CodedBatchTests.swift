// Batches that are compressed with gzip: what is accepted, and that decompression stays within the limits.

import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore
import TidelineTestKit

@Suite struct CodedBatchTests {
    /// This many inserts; they compress well.
    private static func batch(_ count: Int, _ text: String = "milk") -> [UInt8] {
        let parts = (0..<count).map {
            #"{"id":"\#($0)","method":"post","url":"tables/TodoItem","#
                + #""body":{"id":"r\#($0)","text":"\#(text)"}}"#
        }
        return Array(#"{"requests":[\#(parts.joined(separator: ","))]}"#.utf8)
    }

    private static func send(
        _ body: [UInt8],
        _ server: TestServer,
        coding: String = "gzip"
    ) async -> ServerResponse {
        await server.handler.handle(
            ServerRequest(
                method: "POST",
                path: "/$batch",
                headers: ["Content-Type": "application/json", "Content-Encoding": coding],
                body: body
            )
        )
    }

    @Test(
        "A batch that is compressed with gzip is accepted",
        arguments: ["gzip", "x-gzip", "GZIP", "identity, gzip"]
    )
    func aCompressedBatchIsABatch(coding: String) async throws {
        let server = try await TestServer()
        let small = try #require(ContentCoding.gzip(Self.batch(50)))
        let answer = await Self.send(small, server, coding: coding)
        #expect(answer.status == 200, "\(answer.text)")
        // The response says that the next batch may be compressed, too.
        #expect(answer.headers["Accept-Encoding"] == "gzip")
        #expect(await server.send("GET", "/tables/TodoItem").text.contains(#""id":"r49""#))
        let plain = await Self.send(Self.batch(1), server, coding: "identity")
        #expect(plain.status == 200)
        #expect(plain.headers["Accept-Encoding"] == "gzip")
    }

    @Test(
        "A batch with another content coding is rejected with 415",
        arguments: ["deflate", "br", "gzip, gzip", "gzip, br", "x-unknown"]
    )
    func otherCodingsAreRejected(coding: String) async throws {
        let server = try await TestServer()
        let answer = await Self.send(Self.batch(1), server, coding: coding)
        #expect(answer.status == 415)
        #expect(answer.headers["Accept-Encoding"] == "gzip")
    }

    @Test("A batch that is not exactly one gzip member is rejected and not executed")
    func damagedBatchesAreRejected() async throws {
        let server = try await TestServer()
        let whole = try #require(ContentCoding.gzip(Self.batch(50)))
        var cases: [(String, [UInt8])] = [
            ("empty", []), ("no gzip", Self.batch(1)), ("a tail", whole + [0]),
            ("two members", whole + whole), ("its head alone", Array(whole.prefix(18))),
        ]
        for cut in [1, 4, 8, 9, whole.count / 2] {
            cases.append(("cut by \(cut)", Array(whole.dropLast(cut))))
        }
        // The checksum precedes the length.
        for offset in [whole.count - 5, whole.count - 8, whole.count - 4, 0, 2, 3] {
            var bytes = whole
            bytes[offset] ^= 0x40
            cases.append(("another byte at \(offset)", bytes))
        }
        for (name, bytes) in cases {
            let answer = await Self.send(bytes, server)
            // The last bytes of a truncated body may happen to state a length over the limit.
            let length = ContentCoding.plainCount(ofGzip: bytes) ?? 0
            let status = length > ServerLimits().batchBytes ? 413 : 400
            #expect(answer.status == status, "\(name): \(answer.text)")
        }
        #expect(await server.send("GET", "/tables/TodoItem").text.contains(#""items":[]"#))
    }

    @Test("A zip bomb is rejected, even if it states a wrong length")
    func zipBombsAreRejected() async throws {
        let limits = ServerLimits()
        let bomb = try #require(
            ContentCoding.gzip([UInt8](repeating: 0x20, count: limits.batchBytes * 8))
        )
        #expect(bomb.count < limits.batchBytes / 4)
        let server = try await TestServer()
        #expect(await Self.send(bomb, server).status == 413)
        for count in [0, 1, 1000, limits.batchBytes] {
            let length = (0..<4).map { UInt8(truncatingIfNeeded: count >> (8 * $0)) }
            let liar = Array(bomb.dropLast(4)) + length
            #expect(await Self.send(liar, server).status == 400, "\(count)")
            #expect(ContentCoding.gunzip(liar, count: count) == nil)
        }
    }

    @Test("The memory of a decompressed batch is released with its response")
    func theirMemoryIsReleased() async throws {
        let server = try await TestServer()
        let memory = server.handler.service.settings.traffic.codedBatches
        _ = await Self.send(try #require(ContentCoding.gzip(Self.batch(900))), server)
        let malformed = Array(#"{"requests":["#.utf8) + [UInt8](repeating: 0x20, count: 5000)
        #expect(await Self.send(try #require(ContentCoding.gzip(malformed)), server).status == 400)
        #expect(memory.reservedBytes == 0)
    }
}
