// CurlOptions: converts requests to libcurl options.

#if canImport(CCurl)
import CCurl
import Foundation
import TidelineCore

/// The conversion of a request to an easy handle's options, which rejects requests that cannot be
/// sent.
enum CurlOptions {
    /// The header fields that determine a message's length or destination, which only the transport
    /// may set.
    private static let ownFields = ["content-length", "transfer-encoding", "expect", "host"]

    /// Checks the values that libcurl sends unchanged.
    static func check(_ request: TransportRequest) throws(TransportError) {
        try EndpointRules.check(request.url, allowsInsecure: true)
        guard isToken(request.method) else {
            throw .invalidRequest("The method is not a word such as GET. Use uppercase letters.")
        }
        for field in request.headers {
            guard isToken(field.name) else {
                throw .invalidRequest("A header field has no valid name. Use letters and '-'.")
            }
            guard field.value.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 }) else {
                throw .invalidRequest(
                    "The header field '\(field.name)' contains a control character. Remove it."
                )
            }
            guard !ownFields.contains(field.name.lowercased()) else {
                throw .invalidRequest(
                    "The transport writes the header field '\(field.name)' itself. Remove it."
                )
            }
        }
    }

    static func set(
        on easy: UnsafeMutableRawPointer,
        for transfer: CurlTransfer,
        _ limits: TransportLimits,
        _ certificateAuthorities: String?
    ) -> CURLcode {
        let request = transfer.call.request
        let context = Unmanaged.passUnretained(transfer).toOpaque()
        tideline_curl_set_callbacks(
            easy,
            CurlTransfer.onStart,
            CurlTransfer.onHeader,
            CurlTransfer.onBody,
            context
        )
        var code = tideline_curl_set_text(easy, CURLOPT_URL, request.url.absoluteString)
        if code == CURLE_OK { code = tideline_curl_allow_only_http(easy) }
        if code == CURLE_OK { code = setMethod(on: easy, request) }
        // The system's authorities are in a folder and stay in use.
        if code == CURLE_OK, let certificateAuthorities {
            code = tideline_curl_set_text(easy, CURLOPT_CAINFO, certificateAuthorities)
        }
        guard code == CURLE_OK else { return code }
        setRules(on: easy)
        setLimits(on: easy, limits, for: transfer.call)
        tideline_curl_set_error_buffer(easy, transfer.errorText)
        if let host = request.url.host(), EndpointRules.isLoopback(host) {
            tideline_curl_set_text(easy, CURLOPT_PROXY, "")
        }
        guard let headers = makeHeaders(request) else { return CURLE_OUT_OF_MEMORY }
        transfer.headers = headers
        return tideline_curl_set_headers(easy, headers)
    }

    private static func setMethod(
        on easy: UnsafeMutableRawPointer,
        _ request: TransportRequest
    ) -> CURLcode {
        let sendsBody = ["POST", "PUT", "PATCH"].contains(request.method)
        var code = CURLE_OK
        if let body = request.body ?? (sendsBody ? [] : nil) {
            code = body.withUnsafeBytes { bytes in
                tideline_curl_set_body(easy, bytes.baseAddress, curl_off_t(bytes.count))
            }
        } else if request.method == "HEAD" {
            code = tideline_curl_set_long(easy, CURLOPT_NOBODY, 1)
        }
        guard code == CURLE_OK else { return code }
        return tideline_curl_set_text(easy, CURLOPT_CUSTOMREQUEST, request.method)
    }

    // Sets the options that do not depend on the request. The path is sent unchanged, because an id
    // may be "..".
    private static func setRules(on easy: UnsafeMutableRawPointer) {
        tideline_curl_set_long(easy, CURLOPT_NOSIGNAL, 1)
        tideline_curl_set_long(easy, CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1))
        tideline_curl_set_long(easy, CURLOPT_HTTP09_ALLOWED, 0)
        tideline_curl_set_long(easy, CURLOPT_FOLLOWLOCATION, 0)
        tideline_curl_set_long(easy, CURLOPT_SSL_VERIFYPEER, 1)
        tideline_curl_set_long(easy, CURLOPT_SSL_VERIFYHOST, 2)
        tideline_curl_set_long(easy, CURLOPT_PATH_AS_IS, 1)
        tideline_curl_set_long(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1)
        tideline_curl_set_text(easy, CURLOPT_ACCEPT_ENCODING, "")
        tideline_curl_do_not_wait_for_lookups(easy)
    }

    private static func setLimits(
        on easy: UnsafeMutableRawPointer,
        _ limits: TransportLimits,
        for call: CurlCall
    ) {
        tideline_curl_set_long(
            easy,
            CURLOPT_CONNECTTIMEOUT_MS,
            milliseconds(limits.connectTimeout)
        )
        guard call.sink == nil else {
            // A stream may be silent for a long time; keep-alive probes detect a peer that has
            // disappeared.
            tideline_curl_set_long(easy, CURLOPT_TCP_KEEPALIVE, 1)
            return
        }
        tideline_curl_set_long(easy, CURLOPT_TIMEOUT_MS, milliseconds(call.deadline - .now))
        tideline_curl_set_long(easy, CURLOPT_LOW_SPEED_LIMIT, limits.stallBytesPerSecond)
        tideline_curl_set_long(
            easy,
            CURLOPT_LOW_SPEED_TIME,
            max(1, milliseconds(limits.stallTimeout) / 1_000 - speedWindowSeconds)
        )
    }

    /// The window over which libcurl averages the speed, in seconds.
    ///
    /// Because the speed is an average, it falls below the limit this long after the last byte.
    private static let speedWindowSeconds = 5

    /// Returns the header fields.
    ///
    /// An empty `Expect` avoids a one-second wait before large bodies. An empty content type keeps
    /// libcurl from sending the content type of a web form.
    private static func makeHeaders(
        _ request: TransportRequest
    ) -> UnsafeMutablePointer<curl_slist>? {
        var list = curl_slist_append(nil, "Expect:")
        // Replaces the encodings that libcurl would list.
        if !EndpointRules.asksForCompression(request.url), request.headers["Accept-Encoding"] == nil
        {
            append("Accept-Encoding: identity", to: &list)
        }
        if request.headers["Content-Type"] == nil { append("Content-Type:", to: &list) }
        for field in request.headers {
            let line = field.value.isEmpty ? "\(field.name);" : "\(field.name): \(field.value)"
            append(line, to: &list)
        }
        return list
    }

    /// Appends a line; sets the list to nil if there is not enough memory.
    private static func append(_ line: String, to list: inout UnsafeMutablePointer<curl_slist>?) {
        guard let start = list else { return }
        list = curl_slist_append(start, line)
        if list == nil { curl_slist_free_all(start) }
    }

    /// Returns the duration in milliseconds, rounded up to at least one, because zero means "no
    /// limit".
    private static func milliseconds(_ duration: Duration) -> Int {
        let (seconds, attoseconds) = duration.components
        guard seconds < 1_000_000 else { return 1_000_000_000 }
        return max(
            1,
            Int(seconds) * 1_000 + Int((attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
        )
    }

    private static func isToken(_ text: String) -> Bool {
        !text.isEmpty
            && text.utf8.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
                default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
                }
            }
    }
}
#endif
