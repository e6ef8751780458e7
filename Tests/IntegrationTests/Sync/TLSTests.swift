// TLSTests: the certificates that a client trusts, against openssl's server with valid and invalid ones.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit

private enum OpenSSL {
    static let path = "/usr/bin/openssl"
    static let isHere = FileManager.default.isExecutableFile(atPath: path)
}

@Suite(.timeLimit(.minutes(10)), .enabled(if: OpenSSL.isHere, "openssl is not installed"))
struct TLSTests {
    /// Certificates of one authority, in a folder.
    private struct Certificates {
        let folder: String

        init(_ folder: String) async throws {
            self.folder = folder
            try await run([
                "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=Authority",
                "-keyout", path("ca.key"), "-out", path("ca.pem"),
            ])
            try await sign("good", for: "IP:127.0.0.1", days: 2)
            try await sign("expired", for: "IP:127.0.0.1", days: -1)
            try await sign("elsewhere", for: "DNS:elsewhere.example", days: 2)
            try await run([
                "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=Self",
                "-addext", "subjectAltName=IP:127.0.0.1",
                "-keyout", path("self.key"), "-out", path("self.pem"),
            ])
        }

        func path(_ name: String) -> String { folder + "/" + name }

        private func run(_ arguments: [String]) async throws {
            var arguments = arguments
            if arguments[0] == "req" {
                arguments.insert(contentsOf: ["-newkey", "ec"], at: 1)
                arguments += ["-pkeyopt", "ec_paramgen_curve:P-256"]
            }
            let child = try ChildProcess(
                OpenSSL.path,
                arguments,
                environment: ["HOME": folder],
                files: path("openssl"),
                errors: nil
            )
            guard try await child.wait() == .exit(0) else {
                throw TestFailure("openssl \(arguments[0]): \(child.error)")
            }
        }

        private func sign(_ name: String, for host: String, days: Int) async throws {
            try await run([
                "req", "-new", "-nodes", "-subj", "/CN=\(name)",
                "-keyout", path(name + ".key"), "-out", path(name + ".csr"),
            ])
            try Data("subjectAltName=\(host)\n".utf8)
                .write(to: URL(filePath: path(name + ".ext")))
            try await run([
                "x509", "-req", "-in", path(name + ".csr"), "-CA", path("ca.pem"),
                "-CAkey", path("ca.key"), "-CAcreateserial", "-days", "\(days)",
                "-extfile", path(name + ".ext"), "-out", path(name + ".pem"),
            ])
        }
    }

    /// A server with a certificate; it answers every request with a page.
    private func withServer(
        _ certificates: Certificates,
        _ name: String,
        _ body: (URL) async throws -> Void
    ) async throws {
        let child = try ChildProcess(
            OpenSSL.path,
            [
                "s_server", "-accept", "127.0.0.1:0", "-www",
                "-cert", certificates.path(name + ".pem"),
                "-key", certificates.path(name + ".key"),
            ],
            environment: [:],
            files: certificates.path("server-" + name),
            errors: nil
        )
        defer { child.send(SIGKILL) }
        var port: Substring?
        try await until {
            try #require(child.end == nil, "\(child.error)")
            let line = child.output.split(separator: "\n").first { $0.hasPrefix("ACCEPT") }
            port = line?.split(separator: ":").last
            return port != nil
        }
        try await body(try #require(URL(string: "https://127.0.0.1:\(port ?? "")")))
    }

    private func failure(_ transport: CurlTransport, _ url: URL) async -> TransportError? {
        do {
            _ = try await transport.send(TransportRequest(method: "GET", url: url))
            return nil
        } catch {
            return error as? TransportError
        }
    }

    @Test("A client accepts only valid certificates of a trusted authority")
    func onlyCertificatesOfATrustedAuthorityAreAccepted() async throws {
        try await withWorkspace { space in
            let folder = space.directory
            let certificates = try await Certificates(folder)
            let own = CurlTransport(certificateAuthorities: certificates.path("ca.pem"))
            try await withServer(certificates, "good") { url in
                let answer = try await own.send(TransportRequest(method: "GET", url: url))
                #expect(answer.status == 200)
                // Only this test knows this authority.
                #expect(await failure(CurlTransport(), url)?.code == .tls)
                try Data("no certificate".utf8).write(to: URL(filePath: folder + "/text.pem"))
                for name in ["none.pem", "text.pem"] {
                    let path = folder + "/" + name
                    let error = await failure(CurlTransport(certificateAuthorities: path), url)
                    #expect(error?.code == .invalidRequest, "\(name)")
                    #expect(error?.message.contains("certificate authority file") == true)
                }
            }
            for name in ["expired", "elsewhere", "self"] {
                try await withServer(certificates, name) { url in
                    let error = await failure(own, url)
                    #expect(error?.code == .tls, "\(name)")
                    #expect(error?.message.contains("certificate") == true, "\(name)")
                }
            }
        }
    }
}
