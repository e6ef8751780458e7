// PeerCertificate: reads when a certificate expires.

import CCrypto
import Foundation

/// A reader of the certificate that a server presents, without verification.
package enum PeerCertificate {
    /// The timeout of each step in seconds: the connection and each flight of the handshake.
    private static let secondsMax = 10

    /// Returns when the certificate that a server presents expires, in seconds since 1970.
    ///
    /// The call blocks its thread. It performs only the handshake, and does not verify the certificate.
    ///
    /// - Returns: Nil if no TLS server responds, or the expiry cannot be determined.
    package static func end(host: String, port: Int) -> Int64? {
        let socket = connect(host, port)
        guard socket >= 0 else { return nil }
        defer { close(socket) }
        ERR_clear_error()
        defer { ERR_clear_error() }
        guard let context = SSL_CTX_new(TLS_client_method()) else { return nil }
        defer { SSL_CTX_free(context) }
        guard let session = SSL_new(context) else { return nil }
        defer { SSL_free(session) }
        let isNamed = host.withCString { name in
            SSL_ctrl(
                session,
                SSL_CTRL_SET_TLSEXT_HOSTNAME,
                Int(TLSEXT_NAMETYPE_host_name),
                UnsafeMutableRawPointer(mutating: name)
            )
        }
        guard isNamed == 1, SSL_set_fd(session, socket) == 1, SSL_connect(session) == 1,
            let certificate = SSL_get1_peer_certificate(session)
        else { return nil }
        defer { X509_free(certificate) }
        let end = tideline_tls_not_after(certificate)
        return end > 0 ? end : nil
    }

    /// Returns a connected socket; -1 if no address accepts a connection.
    private static func connect(_ host: String, _ port: Int) -> Int32 {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var found: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(host, String(port), &hints, &found) == 0 else { return -1 }
        defer { freeaddrinfo(found) }
        var next = found
        while let address = next?.pointee {
            next = address.ai_next
            let socket = Foundation.socket(
                address.ai_family,
                address.ai_socktype | Int32(SOCK_CLOEXEC.rawValue),
                address.ai_protocol
            )
            guard socket >= 0 else { continue }
            var limit = timeval(tv_sec: secondsMax, tv_usec: 0)
            let size = socklen_t(MemoryLayout<timeval>.size)
            setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, size)
            setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, size)
            if Foundation.connect(socket, address.ai_addr, address.ai_addrlen) == 0 {
                return socket
            }
            close(socket)
        }
        return -1
    }
}
