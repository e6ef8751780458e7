// SupervisorTests: a server's messages to its supervisor, and the socket that it receives from it.

import Foundation
import Testing

extension ProcessTests {
    struct SupervisorTests {
        @Test("The supervisor is notified of the start, each watchdog beat, a reload and the stop")
        func theSupervisorIsNotified() async throws {
            try await withWorkspace { workspace in
                let path = workspace.path("notify")
                let inbox = try Inbox(path)
                let file = try workspace.file("a.json", ServerProcess.configuration)
                let process = try workspace.start(
                    .tideline,
                    [
                        "serve", "--config", file, "--database", "sqlite::memory:", "--listen",
                        "127.0.0.1:0",
                    ],
                    environment: ["NOTIFY_SOCKET": path, "WATCHDOG_USEC": "300000"]
                )
                let ready = try await inbox.next()
                #expect(ready.hasPrefix("READY=1\nSTATUS=listening on http://127.0.0.1:"))
                for _ in 0..<3 { #expect(try await inbox.next() == "WATCHDOG=1") }
                process.send(SIGHUP)
                let reloading = try await inbox.next(but: "WATCHDOG=1")
                #expect(reloading.hasPrefix("RELOADING=1\nMONOTONIC_USEC="))
                #expect(try await inbox.next(but: "WATCHDOG=1") == ready)
                process.send(SIGTERM)
                #expect(try await inbox.next(but: "WATCHDOG=1") == "STOPPING=1")
                #expect(try await process.wait() == .exit(0))
            }
        }

        @Test("A server starts with an unusable notify socket and the settings of another process")
        func noSupervisorHasToListen() async throws {
            try await withWorkspace { workspace in
                for address in ["", "nonsense", workspace.path("none"), "@tideline-none"] {
                    let process = try workspace.start(
                        .tideline,
                        ["serve", "--database", "sqlite::memory:", "--listen", "127.0.0.1:0"],
                        environment: [
                            "NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1",
                            "LISTEN_PID": "1", "LISTEN_FDS": "7",
                        ]
                    )
                    _ = try await eventually("a server that listens; \(process.error)") {
                        process.output.hasPrefix("listening on ") ? () : nil
                    }
                    process.send(SIGTERM)
                    #expect(try await process.wait() == .exit(0))
                }
            }
        }

        @Test("A passed descriptor that is not a listening socket is rejected")
        func otherDescriptorsAreRejected() async throws {
            try await withWorkspace { workspace in
                let plain = socket(AF_INET, Loopback.stream, 0)
                let packets = socket(AF_UNIX, Loopback.stream, 0)
                defer { for descriptor in [plain, packets] { close(descriptor) } }
                for descriptor in [plain, packets] {
                    let process = try workspace.start(
                        .tideline,
                        ["serve", "--database", "sqlite::memory:"],
                        handing: descriptor
                    )
                    #expect(try await process.wait() == .exit(1))
                    #expect(process.error.contains("descriptor 3 is not a listening TCP socket"))
                }
            }
        }
    }
}

/// A datagram socket, like systemd's.
private final class Inbox: Sendable {
    private let socket: Int32

    init(_ path: String) throws {
        socket = Foundation.socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        var patience = timeval(tv_sec: 20, tv_usec: 0)
        setsockopt(
            socket,
            SOL_SOCKET,
            SO_RCVTIMEO,
            &patience,
            socklen_t(MemoryLayout<timeval>.size)
        )
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
        let result = withUnsafeBytes(of: &address) { bytes in
            bytes.withMemoryRebound(to: sockaddr.self) {
                bind(socket, $0.baseAddress, socklen_t(bytes.count))
            }
        }
        guard result == 0 else { throw TestFailure("bind: errno \(errno)") }
    }

    deinit { close(socket) }

    /// The next message other than `text`.
    func next(but text: String = "") async throws -> String {
        try await blocking { [socket] in
            while true {
                var bytes = [UInt8](repeating: 0, count: 4096)
                let count = recv(socket, &bytes, bytes.count, 0)
                guard count >= 0 else { throw TestFailure("no message arrived: errno \(errno)") }
                let message = String(decoding: bytes[..<count], as: UTF8.self)
                if message != text { return message }
            }
        }
    }
}
