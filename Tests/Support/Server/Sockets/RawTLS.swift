// RawTLS: the client's side of TLS for RawClient, on OpenSSL, which blocks like the socket.

import CCrypto
import Foundation
package import TidelineTLS

package final class RawTLS {
    private let context: OpaquePointer
    private let session: OpaquePointer
    private let socket: Int32

    /// Performs the handshake; the server's certificate is not verified.
    ///
    /// `protocols` is the ALPN offer, each protocol preceded by its length; with `cutsHello` the first message is sent
    /// in records of one byte.
    package init(
        on socket: Int32,
        version: Int32? = nil,
        protocols: [UInt8] = [],
        cutsHello: Bool = false
    ) throws {
        guard let context = SSL_CTX_new(TLS_client_method()), let session = SSL_new(context) else {
            throw RawClientError(description: "no memory for TLS")
        }
        self.context = context
        self.session = session
        self.socket = socket
        if let version {
            // Security level 0 allows versions that are too old for the server.
            SSL_set_security_level(session, 0)
            SSL_ctrl(session, SSL_CTRL_SET_MIN_PROTO_VERSION, Int(version), nil)
            SSL_ctrl(session, SSL_CTRL_SET_MAX_PROTO_VERSION, Int(version), nil)
        }
        if !protocols.isEmpty { SSL_set_alpn_protos(session, protocols, UInt32(protocols.count)) }
        if cutsHello { try sendHelloInPieces() }
        SSL_set_fd(session, socket)
        guard SSL_connect(session) == 1 else {
            ERR_clear_error()
            throw RawClientError(description: "handshake", systemError: errno)
        }
    }

    private func sendHelloInPieces() throws {
        let answers = BIO_new(BIO_s_mem())
        let hello = BIO_new(BIO_s_mem())
        BIO_ctrl(answers, BIO_C_SET_BUF_MEM_EOF_RETURN, -1, nil)
        SSL_set_bio(session, answers, hello)
        _ = SSL_connect(session)
        ERR_clear_error()
        var text: UnsafeMutablePointer<CChar>?
        let count = tideline_pem_text(hello, &text)
        let record = UnsafeRawBufferPointer(start: text, count: count)
        var pieces: [UInt8] = []
        for byte in record.dropFirst(5) { pieces += record.prefix(3) + [0, 1, byte] }
        let sent = Foundation.send(socket, pieces, pieces.count, Int32(MSG_NOSIGNAL))
        guard sent == pieces.count else { throw RawClientError(description: "hello") }
    }

    /// Updates the keys for all data that is sent from now on.
    package func updateKeys() throws {
        guard SSL_key_update(session, SSL_KEY_UPDATE_NOT_REQUESTED) == 1,
            SSL_do_handshake(session) == 1
        else { throw RawClientError(description: "new keys") }
    }

    /// Returns the bytes that `body` would have sent.
    package func wire(_ body: (RawTLS) throws -> Void) rethrows -> [UInt8] {
        let memory = BIO_new(BIO_s_mem())
        SSL_set0_wbio(session, memory)
        defer { SSL_set0_wbio(session, BIO_new_socket(socket, BIO_NOCLOSE)) }
        try body(self)
        var text: UnsafeMutablePointer<CChar>?
        let count = tideline_pem_text(memory, &text)
        return Array(UnsafeRawBufferPointer(start: text, count: count))
    }

    deinit {
        SSL_free(session)
        SSL_CTX_free(context)
    }

    /// The protocol version, such as `TLSv1.3`.
    package var version: String { String(cString: SSL_get_version(session)) }

    /// The protocol that ALPN selected.
    package var protocolName: String {
        var name: UnsafePointer<UInt8>?
        var count: UInt32 = 0
        SSL_get0_alpn_selected(session, &name, &count)
        return String(decoding: UnsafeBufferPointer(start: name, count: Int(count)), as: UTF8.self)
    }

    /// The serial number of the server's certificate.
    package var serialNumber: [UInt8] {
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

    package func send(_ bytes: [UInt8]) throws {
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

    package func finishSending() {
        SSL_shutdown(session)
        ERR_clear_error()
    }

    /// Like `recv`: returns the number of bytes, 0 at the end.
    package func receive(_ chunk: inout [UInt8]) -> Int {
        let count = chunk.withUnsafeMutableBytes {
            SSL_read(session, $0.baseAddress, Int32($0.count))
        }
        defer { ERR_clear_error() }
        if count > 0 { return Int(count) }
        return SSL_get_error(session, count) == SSL_ERROR_WANT_READ ? -1 : 0
    }

    /// A certificate of a local authority for this machine, in a separate folder.
    package static func identity() throws -> TLSIdentity {
        let folder = FileManager.default.temporaryDirectory.path + "/tideline-tls-\(UUID())"
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let created = try LocalCertificate.make(hosts: ["127.0.0.1"], directory: folder)
        return try TLSIdentity(certificateFile: created.certificateFile, keyFile: created.keyFile)
    }
}
