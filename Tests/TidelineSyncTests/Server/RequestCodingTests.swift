// Batches as gzip: only to a server that said it takes them so, and never at a cost.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineTestKit

/// Notes the coding and the size of batches; something between may refuse those that are coded.
private final class CodingTap: Transport {
    private let inner: any Transport
    private let refusal: Int?
    private let hidesWord: Bool
    private let state = Mutex<[(coding: String?, bytes: Int)]>([])

    init(_ inner: any Transport, refusal: Int? = nil, hidesWord: Bool = false) {
        self.inner = inner
        self.refusal = refusal
        self.hidesWord = hidesWord
    }

    /// The codings of the batches so far, `-` for none.
    var codings: [String] { state.withLock { $0.map { $0.coding ?? "-" } } }
    var bytes: [Int] { state.withLock { $0.map(\.bytes) } }

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        let coding = request.headers["Content-Encoding"]
        guard request.url.path().hasSuffix("/$batch") else {
            #expect(coding == nil)
            return try await inner.send(request)
        }
        state.withLock { $0.append((coding, request.body?.count ?? 0)) }
        if let refusal, coding != nil { return TransportResponse(status: refusal) }
        var response = try await inner.send(request)
        if hidesWord { response.headers["Accept-Encoding"] = nil }
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

    @Test func theSecondBatchIsCompressed() async throws {
        let server = try await makeServer()
        let tap = CodingTap(server.transport)
        let store = MemoryStore()
        let device = try await Device(tap, store: store)
        try await push(device, "a")
        try await push(device, "b")
        #expect(tap.codings == ["-", "gzip"])
        #expect(tap.bytes[1] < tap.bytes[0] / 4, "\(tap.bytes)")
        // What is small is sent as it is.
        try await push(device, "c", 2)
        #expect(tap.codings == ["-", "gzip", "-"])
        #expect(try await device.client.table(Todo.self).read().count == 82)
        // The next run of the app knows it, at the same server only.
        let later = CodingTap(server.transport)
        try await push(try await Device(later, store: store), "d")
        #expect(later.codings == ["gzip"])
        let elsewhere = CodingTap(server.transport)
        let other = try #require(URL(string: "http://127.0.0.1"))
        try await push(try await Device(elsewhere, store: store, endpoint: other), "e")
        #expect(elsewhere.codings == ["-"])
    }

    @Test func theSizeIsALimit() async throws {
        var limits = SyncLimits()
        limits.compressedBatchBytesMin = .max
        let tap = CodingTap(try await makeServer().transport)
        let device = try await Device(tap, limits: limits)
        try await push(device, "a")
        try await push(device, "b")
        #expect(tap.codings == ["-", "-"])
    }

    /// A server that does not say so gets nothing compressed.
    @Test func aServerThatSaysNothingGetsItPlain() async throws {
        let tap = CodingTap(try await makeServer().transport, hidesWord: true)
        let device = try await Device(tap)
        try await push(device, "a")
        try await push(device, "b")
        #expect(tap.codings == ["-", "-"])
    }

    /// What is refused goes again as it was, at once, and nothing is compressed any more.
    @Test(arguments: [415, 400])
    func aRefusalIsRemembered(status: Int) async throws {
        let server = try await makeServer()
        let tap = CodingTap(server.transport, refusal: status)
        let store = MemoryStore()
        let device = try await Device(tap, store: store)
        try await push(device, "a")
        try await push(device, "b")
        try await push(device, "c")
        #expect(tap.codings == ["-", "gzip", "-", "-"])
        #expect(device.waits.all.isEmpty)
        #expect(try await device.client.table(Todo.self).read().count == 120)
        // The store forgot that it was taken.
        let later = CodingTap(server.transport)
        try await push(try await Device(later, store: store), "d")
        #expect(later.codings == ["-"])
    }

    @Test(arguments: [
        ("gzip", true), ("GZIP", true), ("br, gzip;q=0.5", true), ("gzip;q=1", true),
        ("gzip;q=0", false), ("gzip; q=0.000", false), ("identity", false), ("", false),
        ("gzipped", false), ("br", false), ("*", false),
    ])
    func whatAServerSays(_ field: String, _ takes: Bool) async throws {
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

    /// A request that is repeated has the same name, whether its batch is compressed or not.
    @Test func aLostCompressedBatchIsFoundAgain() async throws {
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
