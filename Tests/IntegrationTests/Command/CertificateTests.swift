// CertificateTests: `tideline certificate`, and a server that uses the certificate.

import Foundation
import Testing
import Tideline

extension ProcessTests {
    struct CertificateTests {
        /// The arguments of `serve`, with the files of `tideline certificate`.
        private static let configuration = """
            {
              "tables": { "TodoItem": { "columns": { "text": "string", "complete": "boolean" } } },
              "tls": {
                "certificateFile": "certificates/certificate.pem",
                "keyFile": "certificates/certificate.key"
              },
              "log": { "level": "LEVEL" }
            }
            """

        private static func configuration(level: String) -> String {
            configuration.replacing("LEVEL", with: level)
        }

        private static func certificate(
            _ space: Workspace,
            _ hosts: String,
            _ folder: String = "certificates"
        ) async throws -> Finished {
            let words = ["certificate", "--host", hosts, "--directory", space.path(folder)]
            return try await space.run(.tideline, words)
        }

        private static func wire(_ server: ServerProcess, _ authority: String) -> Wire {
            let transport = CurlTransport(certificateAuthorities: authority)
            return Wire(endpoint: server.url, transport: transport)
        }

        @Test("Only a client that trusts the new authority can connect to the server")
        func aClientThatTrustsTheAuthorityIsServed() async throws {
            try await withWorkspace { space in
                let created = try await Self.certificate(space, "127.0.0.1,localhost")
                #expect(created.code == 0 && created.error == "")
                let authority = space.path("certificates/authority.pem")
                #expect(created.output.contains(authority))
                #expect(created.output.contains("Certificate Trust Settings"))
                let server = try await ServerProcess.start(
                    in: space,
                    configuration: Self.configuration(level: "info")
                )
                #expect(server.url.absoluteString == "https://127.0.0.1:\(server.port)")
                let wire = Self.wire(server, authority)
                let insert = try await wire.send("POST", "/tables/TodoItem", #"{"id":"a"}"#)
                #expect(insert.status == 201)
                let address = "https://127.0.0.1:\(server.port)/tables/TodoItem/a"
                #expect(insert.headers["Location"] == address)
                #expect(try await wire.send("GET", address).status == 200)
                // No other client knows the authority.
                let stranger = Wire(endpoint: server.url, transport: CurlTransport())
                await #expect(throws: TransportError.self) {
                    try await stranger.send("GET", "/health")
                }
                // A complete client, including live events.
                let list = try await wire.send("GET", "/tables/TodoItem")
                #expect(list.rows.count == 1)
                #expect(try await server.stop() == .exit(0))
            }
        }

        @Test("The curl program is served over TLS with the created authority")
        func aCommandLineClientIsServed() async throws {
            let curl = "/usr/bin/curl"
            guard FileManager.default.isExecutableFile(atPath: curl) else { return }
            try await withWorkspace { space in
                _ = try await Self.certificate(space, "127.0.0.1")
                let server = try await ServerProcess.start(
                    in: space,
                    configuration: Self.configuration(level: "info")
                )
                let child = try ChildProcess(
                    curl,
                    [
                        "--silent", "--show-error", "--cacert",
                        space.path("certificates/authority.pem"), "--http2", "--write-out",
                        " %{http_code} %{http_version}", "\(server.url)/health",
                    ],
                    environment: [:],
                    files: space.path("curl"),
                    errors: nil
                )
                #expect(try await child.wait() == .exit(0), "\(child.error)")
                #expect(child.output == #"{"status":"ok"} 200 1.1"#)
                _ = try await server.stop()
            }
        }

        @Test("SIGHUP reloads the certificate, and an unusable file changes nothing")
        func theCertificateIsReloaded() async throws {
            try await withWorkspace { space in
                _ = try await Self.certificate(space, "127.0.0.1")
                let old = space.path("old.pem")
                let authority = space.path("certificates/authority.pem")
                try FileManager.default.copyItem(atPath: authority, toPath: old)
                let server = try await ServerProcess.start(
                    in: space,
                    configuration: Self.configuration(level: "info")
                )
                #expect(try await Self.wire(server, old).send("GET", "/health").status == 200)
                // Another authority: a client that trusts only the old one is no longer served.
                for name in ["authority.pem", "authority.key"] {
                    try FileManager.default.removeItem(atPath: space.path("certificates/" + name))
                }
                _ = try await Self.certificate(space, "127.0.0.1")
                #expect(try await Self.wire(server, old).send("GET", "/health").status == 200)
                server.process.send(SIGHUP)
                let isNew = try await eventually("the new certificate") {
                    let answer = try? await Self.wire(server, authority).send("GET", "/health")
                    return answer?.status == 200 ? true : nil
                }
                #expect(isNew)
                await #expect(throws: TransportError.self) {
                    try await Self.wire(server, old).send("GET", "/health")
                }
                _ = try space.file("certificates/certificate.pem", "no certificate")
                server.process.send(SIGHUP)
                _ = try await eventually("a line of the log: \(server.process.error)") {
                    server.process.error.contains("stays unchanged") ? true : nil
                }
                #expect(server.process.error.contains("tls.certificateFile"))
                #expect(try await Self.wire(server, authority).send("GET", "/health").status == 200)
                #expect(try await server.stop() == .exit(0))
            }
        }

        @Test("SIGHUP applies a changed log level") func theLogLevelIsReloaded() async throws {
            try await withWorkspace { space in
                _ = try await Self.certificate(space, "127.0.0.1")
                let server = try await ServerProcess.start(
                    in: space,
                    configuration: Self.configuration(level: "error")
                )
                let wire = Self.wire(server, space.path("certificates/authority.pem"))
                #expect(try await wire.send("GET", "/tables/TodoItem").status == 200)
                #expect(server.process.error == "")
                _ = try space.file("tideline.json", Self.configuration(level: "debug"))
                server.process.send(SIGHUP)
                _ = try await eventually("lines of requests") {
                    _ = try await wire.send("GET", "/tables/TodoItem")
                    return server.requests.isEmpty ? nil : true
                }
                _ = try await server.stop()
            }
        }

        @Test(
            "The certificate command reports invalid arguments",
            arguments: [
                (["certificate"], "--host is missing", 2),
                (["certificate", "--host", "a b"], "a b", 2),
                (["certificate", "--host", "a", "--directory", "/proc/none"], "/proc/none", 1),
            ]
        )
        func mistakesAreReported(words: [String], text: String, code: Int32) async throws {
            try await withWorkspace { space in
                let ended = try await space.run(.tideline, words)
                #expect(ended.code == code)
                #expect(ended.error.contains(text), "\(ended.error)")
            }
        }

        @Test(
            "A server does not start with an unusable TLS configuration",
            arguments: [
                (#"{"tls":{}}"#, "tls: both certificateFile and keyFile"),
                (#"{"tls":{"certificateFile":"a","keyFile":"b"}}"#, "a': the file cannot be read"),
                (#"{"tls":{"certificateFile":"a","key":"b"}}"#, "tls.key"),
            ]
        )
        func anUnusableConfigurationIsRejected(text: String, fault: String) async throws {
            try await withWorkspace { space in
                let file = try space.file("c.json", text)
                let ended = try await space.run(.tideline, ["serve", "--config", file])
                #expect(ended.code == 2)
                #expect(ended.error.contains(fault), "\(ended.error)")
            }
        }
    }
}
