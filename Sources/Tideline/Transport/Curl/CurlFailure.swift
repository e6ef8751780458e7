// CurlFailure: converts libcurl's result codes to transport errors.

#if canImport(CCurl)
import CCurl
import TidelineCore

/// The cause of a ``TransportError`` from ``CurlTransport``, with libcurl's message.
package struct CurlFailure: Error, Sendable, CustomStringConvertible {
    package let code: UInt32
    package let description: String

    private static let cannotConnect = [
        CURLE_COULDNT_RESOLVE_PROXY, CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_CONNECT,
        CURLE_INTERFACE_FAILED, CURLE_PROXY,
    ]
    private static let connectionLost = [
        CURLE_GOT_NOTHING, CURLE_SEND_ERROR, CURLE_RECV_ERROR, CURLE_PARTIAL_FILE,
        CURLE_SEND_FAIL_REWIND,
    ]
    private static let invalidResponse = [
        CURLE_UNSUPPORTED_PROTOCOL, CURLE_WEIRD_SERVER_REPLY, CURLE_BAD_CONTENT_ENCODING,
        CURLE_HTTP2, CURLE_WRITE_ERROR,
    ]
    private static let tls = [
        CURLE_SSL_CONNECT_ERROR, CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CERTPROBLEM,
        CURLE_SSL_CIPHER, CURLE_SSL_CRL_BADFILE, CURLE_SSL_ISSUER_ERROR,
        CURLE_SSL_PINNEDPUBKEYNOTMATCH, CURLE_SSL_INVALIDCERTSTATUS,
        CURLE_SSL_CLIENTCERT, CURLE_SSL_ENGINE_NOTFOUND, CURLE_SSL_ENGINE_SETFAILED,
        CURLE_SSL_ENGINE_INITFAILED, CURLE_USE_SSL_FAILED,
    ]
    /// OpenSSL's messages for a handshake that failed because of the network, not because of the
    /// certificate.
    private static let cutHandshakes = ["reset", "SSL_ERROR_SYSCALL", "unexpected eof"]

    init(_ code: CURLcode, detail: String = "") {
        self.code = code.rawValue
        let text = detail.isEmpty ? String(cString: curl_easy_strerror(code)) : detail
        description = "libcurl \(code.rawValue): \(text)"
    }

    func error(for call: CurlCall, head: ResponseHead?) -> TransportError {
        let url = call.request.url
        let wasSent = call.hasBegun
        let code = CURLcode(code)
        if Self.cannotConnect.contains(code) || isCutHandshake {
            return wasSent ? .connectionLost(url, cause: self) : .cannotConnect(url, cause: self)
        }
        if code == CURLE_OPERATION_TIMEDOUT {
            return .timedOut(url, wasSent: wasSent, cause: self)
        }
        if Self.connectionLost.contains(code) {
            guard wasSent else { return .cannotConnect(url, cause: self) }
            return head?.hasBegun == true
                ? .incompleteResponse(url, cause: self) : .connectionLost(url, cause: self)
        }
        if code == CURLE_SSL_CACERT_BADFILE {
            return .invalidRequest(
                "The certificate authority file cannot be read, or contains no PEM certificate.",
                cause: self
            )
        }
        if Self.tls.contains(code) { return .tls(url, wasSent: wasSent, cause: self) }
        if !wasSent, code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL {
            return .invalidRequest(
                "libcurl does not accept the address. Write it as https://host/path.",
                cause: self
            )
        }
        if wasSent, Self.invalidResponse.contains(code) {
            return .invalidResponse(url, cause: self)
        }
        return .failed(url, wasSent: wasSent, cause: self)
    }

    private var isCutHandshake: Bool {
        CURLcode(code) == CURLE_SSL_CONNECT_ERROR
            && Self.cutHandshakes.contains { description.contains($0) }
    }
}
#endif
