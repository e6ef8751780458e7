// RawTLS: the client's side of TLS for RawClient, on OpenSSL, which waits as the socket does.

import CCrypto
import Foundation
import TidelineTLS

final class RawTLS {
    private let context: OpaquePointer
    private let session: OpaquePointer

    /// Agrees on keys; the server's certificate is not looked at.
    ///
    /// `protocols` is what ALPN offers, each with its length before it.
    init(on socket: Int32, version: Int32? = nil, protocols: [UInt8] = []) throws {
        guard let context = SSL_CTX_new(TLS_client_method()), let session = SSL_new(context) else {
            throw RawClientError(description: "no memory for TLS")
        }
        self.context = context
        self.session = session
        if let version {
            // Security level 0 allows what is too old to be served.
            SSL_set_security_level(session, 0)
            SSL_ctrl(session, SSL_CTRL_SET_MIN_PROTO_VERSION, Int(version), nil)
            SSL_ctrl(session, SSL_CTRL_SET_MAX_PROTO_VERSION, Int(version), nil)
        }
        if !protocols.isEmpty { SSL_set_alpn_protos(session, protocols, UInt32(protocols.count)) }
        SSL_set_fd(session, socket)
        guard SSL_connect(session) == 1 else {
            ERR_clear_error()
            throw RawClientError(description: "handshake", systemError: errno)
        }
    }

    deinit {
        SSL_free(session)
        SSL_CTX_free(context)
    }

    /// Such as `TLSv1.3`.
    var version: String { String(cString: SSL_get_version(session)) }

    /// What ALPN chose.
    var protocolName: String {
        var name: UnsafePointer<UInt8>?
        var count: UInt32 = 0
        SSL_get0_alpn_selected(session, &name, &count)
        return String(decoding: UnsafeBufferPointer(start: name, count: Int(count)), as: UTF8.self)
    }

    /// The number of the server's certificate.
    var serialNumber: [UInt8] {
        guard let certificate = SSL_get1_peer_certificate(session),
            let number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nil)
        else { return [] }
        defer {
            X509_free(certificate)
            BN_free(number)
        }
        var bytes = [UInt8](repeating: 0, count: 32)
        BN_bn2binpad(number, &bytes, 32)
        return bytes
    }

    func send(_ bytes: [UInt8]) throws {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { SSL_write(session, $0.baseAddress, Int32($0.count)) }
            guard count > 0 else {
                ERR_clear_error()
                throw RawClientError(description: "send", systemError: errno)
            }
            rest = rest.dropFirst(Int(count))
        }
    }

    func finishSending() {
        SSL_shutdown(session)
        ERR_clear_error()
    }

    /// As `recv`: the count of bytes, 0 at the end.
    func receive(_ chunk: inout [UInt8]) -> Int {
        let count = chunk.withUnsafeMutableBytes {
            SSL_read(session, $0.baseAddress, Int32($0.count))
        }
        defer { ERR_clear_error() }
        if count > 0 { return Int(count) }
        return SSL_get_error(session, count) == SSL_ERROR_WANT_READ ? -1 : 0
    }

    /// A certificate of a local authority for this machine, in a folder of its own.
    static func identity() throws -> TLSIdentity {
        let folder = FileManager.default.temporaryDirectory.path + "/tideline-tls-\(UUID())"
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let made = try LocalCertificate.make(hosts: ["127.0.0.1"], directory: folder)
        return try TLSIdentity(certificateFile: made.certificateFile, keyFile: made.keyFile)
    }
}
