// TLSContext: connections have TLS 1.2 or newer, `http/1.1`, and no renegotiation.

import CCrypto
import Foundation

/// A certificate with its key, and the settings for connections that use it.
///
/// Unchecked Sendable because it does not change after the initializer: OpenSSL counts the references
/// to a context with atomics, and takes its own locks for the tickets.
package final class TLSContext: @unchecked Sendable {
    private let context: OpaquePointer
    /// When the first certificate of the file expires, in seconds since 1970.
    package let validUntil: Int64

    /// The functions with which OpenSSL reads and writes sockets, for the lifetime of the process.
    private static nonisolated(unsafe) let method = tideline_tls_method()

    /// Reads a certificate, the intermediate certificates, and the key from PEM files.
    ///
    /// - Throws: ``TLSError``, whose message begins with the name of the file.
    package init(certificateFile: String, keyFile: String) throws(TLSError) {
        guard let context = tideline_tls_context() else { throw .exhausted }
        var isKept = false
        defer { if !isKept { SSL_CTX_free(context) } }
        let chain = try PEMFile(certificateFile).certificates()
        let key = try PEMFile(keyFile).key()
        guard let first = chain.first else {
            throw TLSError(
                .certificateUnusable,
                "'\(certificateFile)': the file contains no certificate in PEM."
            )
        }
        ERR_clear_error()
        guard SSL_CTX_use_certificate(context, first.pointer) == 1 else {
            throw TLSError(
                .certificateUnusable,
                "'\(certificateFile)': its first certificate cannot be served: \(Self.reason())."
            )
        }
        for certificate in chain.dropFirst() {
            // Retains the certificate, which is one more reference to it.
            X509_up_ref(certificate.pointer)
            guard
                SSL_CTX_ctrl(
                    context,
                    SSL_CTRL_CHAIN_CERT,
                    0,
                    UnsafeMutableRawPointer(certificate.pointer)
                ) == 1
            else {
                X509_free(certificate.pointer)
                throw .exhausted
            }
        }
        ERR_clear_error()
        guard X509_check_private_key(first.pointer, key.pointer) == 1,
            SSL_CTX_use_PrivateKey(context, key.pointer) == 1
        else {
            ERR_clear_error()
            throw TLSError(
                .keysDiffer,
                "'\(keyFile)': the key does not belong to the first certificate in '\(certificateFile)'."
            )
        }
        validUntil = tideline_tls_not_after(first.pointer)
        self.context = context
        isKept = true
    }

    deinit { SSL_CTX_free(context) }

    /// Returns a session with the peer of a connected socket; nil if OpenSSL is out of memory.
    package func session(on socket: Int32) -> TLSSession? {
        guard let method = Self.method,
            let session = tideline_tls_session(context, method, socket)
        else {
            ERR_clear_error()
            return nil
        }
        return TLSSession(session)
    }

    /// Returns the reason for the error, in OpenSSL's words.
    static func reason() -> String {
        let code = ERR_peek_last_error()
        ERR_clear_error()
        guard let text = ERR_reason_error_string(code) else { return "no reason is given" }
        return String(cString: text)
    }
}
