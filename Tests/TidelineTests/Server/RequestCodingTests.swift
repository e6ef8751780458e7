// Batches with gzip: only to a server that announces support, and only if the batch becomes smaller.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineTestKit
import TidelineTestSupport

/// Records the coding and the size of batches; a gateway may reject compressed ones.
private final class CodingTap: Transport {
    private let inner: any Transport
    private let rejection: Int?
    private let hidesSupport: Bool
    private let state = Mutex<[(coding: String?, bytes: Int)]>([])

    init(_ inner: any Transport, rejection: Int? = nil, hidesSupport: Bool = false) {
        self.inner = inner
        self.rejection = rejection
        self.hidesSupport = hidesSupport
    }

    /// The content codings of the batches so far, `-` for none.
    var codings: [String] { state.withLock { $0.map { $0.coding ?? "-" } } }
    var bytes: [Int] { state.withLock { $0.map(\.bytes) } }

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        let coding = request.headers["Content-Encoding"]
        guard request.url.path().hasSuffix("/$batch") else {
            #expect(coding == nil)
            return try await inner.send(request)
        }
        state.withLock { $0.append((coding, request.body?.count ?? 0)) }
        if let rejection, coding != nil { return TransportResponse(status: rejection) }
        var response = try await inner.send(request)
        if hidesSupport { response.headers["Accept-Encoding"] = nil }
        return response
    }
}

@Suite struct RequestCodingTests {
    private func push(_ device: Device, _ name: String, _ count: Int = 40) async throws {
        for number in 0..<count {
            try await device.todos().insert(Todo(id: "\(name)-\(number)", text: "some text"))
        }
        #expect(try await device.push() == nil)
        #expect(try await device.queue().isEmpty)
    }

    @Test("Batches are compressed after the server has announced support for gzip")
    func theSecondBatchIsCompressed() async throws {
        let server = try await makeServer()
        let tap = CodingTap(server.transport)
        let store = MemoryStore()
        let device = try await Device(tap, store: store)
        try await push(device, "a")
        try await push(device, "b")
        #expect(tap.codings == ["-", "gzip"])
        #expect(tap.bytes[1] < tap.bytes[0] / 4, "\(tap.bytes)")
        // A small batch is sent without compression.
        try await push(device, "c", 2)
        #expect(tap.codings == ["-", "gzip", "-"])
        #expect(try await device.client.table(Todo.self).read().count == 82)
        // The next run of the app knows it, for the same server only.
        let later = CodingTap(server.transport)
        try await push(try await Device(later, store: store), "d")
        #expect(later.codings == ["gzip"])
        let elsewhere = CodingTap(server.transport)
        let other = try #require(URL(string: "http://127.0.0.1"))
        try await push(try await Device(elsewhere, store: store, endpoint: other), "e")
        #expect(elsewhere.codings == ["-"])
    }

    @Test("Batches below the minimum size are not compressed")
    func smallBatchesAreNotCompressed() async throws {
        var limits = SyncLimits()
        limits.compressedBatchBytesMin = .max
        let tap = CodingTap(try await makeServer().transport)
        let device = try await Device(tap, limits: limits)
        try await push(device, "a")
        try await push(device, "b")
        #expect(tap.codings == ["-", "-"])
    }

    @Test("A server that does not announce gzip support gets uncompressed batches")
    func aServerWithoutSupportGetsPlainBatches() async throws {
        let tap = CodingTap(try await makeServer().transport, hidesSupport: true)
        let device = try await Device(tap)
        try await push(device, "a")
        try await push(device, "b")
        #expect(tap.codings == ["-", "-"])
    }

    @Test(
        "After a rejected compressed batch, batches are sent without compression",
        arguments: [415, 400]
    )
    func aRejectionIsStored(status: Int) async throws {
        let server = try await makeServer()
        let tap = CodingTap(server.transport, rejection: status)
        let store = MemoryStore()
        let device = try await Device(tap, store: store)
        try await push(device, "a")
        try await push(device, "b")
        try await push(device, "c")
        #expect(tap.codings == ["-", "gzip", "-", "-"])
        #expect(device.waits.all.isEmpty)
        #expect(try await device.client.table(Todo.self).read().count == 120)
        // The store has removed the server's support.
        let later = CodingTap(server.transport)
        try await push(try await Device(later, store: store), "d")
        #expect(later.codings == ["-"])
    }

    @Test(
        "Batches are compressed only if the server's Accept-Encoding allows gzip",
        arguments: [
            ("gzip", true), ("GZIP", true), ("br, gzip;q=0.5", true), ("gzip;q=1", true),
            ("gzip;q=0", false), ("gzip; q=0.000", false), ("identity", false), ("", false),
            ("gzipped", false), ("br", false), ("*", false),
        ]
    )
    func theHeaderFieldOfAServerIsRead(_ field: String, _ takes: Bool) async throws {
        let tap = ScriptedTransport(
            otherwise: .json(200, #"{"responses":[]}"#, ["Accept-Encoding": field]),
            takesBatches: true
        )
        let device = try await Device(tap)
        for number in 0..<40 {
            try await device.todos().insert(Todo(id: "\(number)", text: "some text"))
        }
        _ = try await device.push()
        _ = try await device.push()
        #expect(tap.sent.contains { $0.coding == "gzip" } == takes)
        #expect(tap.sent.first?.coding == nil)
    }

    @Test("A compressed batch with a lost response is not executed twice")
    func aLostCompressedBatchIsRecovered() async throws {
        let server = try await makeServer()
        let lossy = BatchTap(server.transport, [.deliver, .dropAnswer], hidesCodings: false)
        let tap = CodingTap(lossy)
        let device = try await Device(tap)
        try await push(device, "a")
        try await push(device, "b")
        #expect(tap.codings.prefix(2) == ["-", "gzip"])
        let local = try await device.todos().read()
        let remote = try await device.client.table(Todo.self).read()
        #expect(Set(local.map(\.version)) == Set(remote.map(\.version)))
    }
}
