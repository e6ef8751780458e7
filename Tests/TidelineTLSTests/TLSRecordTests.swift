// TLSRecordTests: callers whose TLS records are empty, or have one byte each, delay no other caller.

import Foundation
import Glibc
import ServerTestSupport
import Synchronization
import Testing
import TidelineHTTP
import TidelineServerCore
import TidelineTLS

@Suite(.timeLimit(.minutes(10))) struct TLSRecordTests {
    /// `MSG_NOSIGNAL`, which the compiler does not always find if CCrypto is imported, too.
    private static let noSignal: Int32 = 0x4000

    /// Sends all bytes, or as many as the peer accepts.
    private static func send(_ bytes: [UInt8], on socket: Int32) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                Glibc.send(socket, $0.baseAddress, $0.count, Self.noSignal)
            }
            guard count > 0 else { return }
            rest = rest.dropFirst(count)
        }
    }

    private static func receive(_ tls: RawTLS) -> String {
        var chunk = [UInt8](repeating: 0, count: 16 << 10)
        let count = tls.receive(&chunk)
        return String(decoding: chunk.prefix(max(0, count)), as: UTF8.self)
    }

    @Test("A flood of key updates ends the connection, and occasional ones are valid")
    func aFloodOfRecordsWithoutDataEndsTheConnection() async throws {
        try await withServer(loops: 1, tls: RawTLS.identity()) { port in
            let socket = try TLSServerTests.connect(port)
            defer { close(socket) }
            let tls = try RawTLS(on: socket)
            for _ in 0..<3 {
                let some = try tls.wire {
                    for _ in 0..<500 { try $0.updateKeys() }
                    try $0.send(Array(get("/").utf8))
                }
                Self.send(some, on: socket)
                #expect(Self.receive(tls).hasPrefix("HTTP/1.1 200"))
            }
            let flood = try tls.wire {
                for _ in 0..<20_000 { try $0.updateKeys() }
                try $0.send(Array(get("/").utf8))
            }
            Self.send(flood, on: socket)
            #expect(Self.receive(tls) == "")
            #expect(try RawClient(port: port, overTLS: true).ask(get("/")).status == 200)
        }
    }

    @Test("Many records of one byte do not delay other callers")
    func recordsOfOneByteDelayNoCaller() async throws {
        let order = Mutex<[String]>([])
        let isHeld = DispatchSemaphore(value: 0)
        let goesOn = DispatchSemaphore(value: 0)
        @Sendable func hold() {
            isHeld.signal()
            goesOn.wait()
        }
        try await withServer(
            loops: 1,
            tls: RawTLS.identity(),
            handler: { request in
                if request.path == "/hold" {
                    hold()
                } else {
                    order.withLock { $0.append(request.path) }
                }
                return ServerResponse(status: 204)
            },
            body: { port in
                let socket = try TLSServerTests.connect(port)
                defer { close(socket) }
                let slow = try RawTLS(on: socket)
                let quick = try RawClient(port: port, overTLS: true)
                let holder = try RawClient(port: port, overTLS: true)
                // The loop has accepted both connections.
                try slow.send(Array(get("/first").utf8))
                #expect(Self.receive(slow).hasPrefix("HTTP/1.1 204"))
                #expect(try quick.ask(get("/second")).status == 204)
                try holder.send(get("/hold"))
                isHeld.wait()
                let count = 4000
                let head = "POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: \(count)\r\n\r\n"
                let bytes = try slow.wire { tls in
                    try tls.send(Array(head.utf8))
                    for _ in 0..<count { try tls.send([0x41]) }
                }
                Self.send(bytes, on: socket)
                try quick.send(get("/quick"))
                goesOn.signal()
                #expect(try quick.answer()?.status == 204)
                #expect(Self.receive(slow).hasPrefix("HTTP/1.1 204"))
            }
        )
        #expect(order.withLock { $0 } == ["/first", "/second", "/quick", "/slow"])
    }

    @Test("A handshake may be split into records of one byte")
    func aHandshakeMayBeSplitIntoManyRecords() async throws {
        try await withServer(loops: 1, tls: RawTLS.identity()) { port in
            let socket = try TLSServerTests.connect(port)
            defer { close(socket) }
            let tls = try RawTLS(on: socket, cutsHello: true)
            try tls.send(Array(get("/").utf8))
            #expect(Self.receive(tls).hasPrefix("HTTP/1.1 200"))
        }
    }
}
