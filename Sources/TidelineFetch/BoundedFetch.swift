// BoundedFetch: reads one small document over HTTPS, with limits on size, time and redirects.

import CCurl
import Foundation

/// The reason why a document was not fetched.
package struct FetchError: Error, Hashable, Sendable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) {
        self.description = description
    }
}

/// A fetch with limits.
package struct BoundedFetch: Sendable {
    /// The maximum size of a document, in bytes.
    package var bytesMax = 512 * 1024
    /// The time limit for everything: name lookup, connection, redirects, document.
    package var timeMax: Duration = .seconds(10)
    /// The maximum number of redirects, which are followed only within the same origin.
    package var redirectsMax = 3

    package init() {}

    private static let isReady = curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK

    // MARK: - Addresses

    /// Returns the reason why an address is not accepted; nil if it is https, or http on this machine.
    package static func mistake(in text: String) -> String? {
        guard let url = URL(string: text), let host = url.host, !host.isEmpty,
            url.scheme == "https" || url.scheme == "http" && isLoopback(host)
        else { return "an https URL, or an http URL of this machine" }
        guard url.user == nil, url.password == nil, url.fragment == nil else {
            return "a URL without user, password and fragment"
        }
        return nil
    }

    private static func isLoopback(_ host: String) -> Bool {
        if ["localhost", "::1", "[::1]"].contains(host.lowercased()) { return true }
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4 && parts[0] == "127" && parts.allSatisfy { UInt8($0) != nil }
    }

    private static func origin(_ url: URL) -> [String] {
        let port = url.port ?? (url.scheme == "https" ? 443 : 80)
        return [url.scheme ?? "", (url.host ?? "").lowercased(), "\(port)"]
    }

    // MARK: - Fetching

    /// Fetches the document at an address, on a separate thread.
    ///
    /// - Returns: The body of an answer with status 200.
    /// - Throws: ``FetchError``
    package func get(_ text: String) async throws(FetchError) -> [UInt8] {
        let result: Result<[UInt8], FetchError> = await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                do throws(FetchError) {
                    continuation.resume(returning: .success(try getBlocking(text)))
                } catch {
                    continuation.resume(returning: .failure(error))
                }
            }
        }
        return try result.get()
    }

    private func getBlocking(_ text: String) throws(FetchError) -> [UInt8] {
        if let mistake = Self.mistake(in: text) { throw FetchError("\(mistake) is expected") }
        guard Self.isReady, let first = URL(string: text) else {
            throw FetchError("libcurl cannot be initialized")
        }
        let end = ContinuousClock.now + timeMax
        var url = first
        for _ in 0...redirectsMax {
            let answer = try once(url, until: end)
            switch answer.status {
            case 200: return answer.body
            case 301, 302, 303, 307, 308:
                guard let next = answer.redirect.flatMap({ URL(string: $0) }),
                    Self.origin(next) == Self.origin(first)
                else {
                    throw FetchError(
                        "the response redirects to another server, which is not allowed"
                    )
                }
                url = next
            default: throw FetchError("the server responded with status \(answer.status)")
            }
        }
        throw FetchError("there are more than \(redirectsMax) redirects")
    }

    /// A buffer that libcurl appends to.
    private final class Body {
        var bytes: [UInt8] = []
        let bytesMax: Int

        init(bytesMax: Int) {
            self.bytesMax = bytesMax
        }
    }

    private func once(
        _ url: URL,
        until end: ContinuousClock.Instant
    ) throws(FetchError) -> (status: Int, redirect: String?, body: [UInt8]) {
        guard let easy = curl_easy_init() else { throw FetchError("out of memory") }
        defer { curl_easy_cleanup(easy) }
        let (seconds, attoseconds) = (end - .now).components
        let milliseconds = Int(seconds) * 1000 + Int(attoseconds / 1_000_000_000_000_000)
        guard milliseconds > 0 else { throw FetchError("it took longer than \(timeMax)") }
        let body = Body(bytesMax: bytesMax)
        tideline_curl_set_body_receiver(
            easy,
            { bytes, size, count, context in
                guard let bytes, let context else { return 0 }
                let body = Unmanaged<Body>.fromOpaque(context).takeUnretainedValue()
                let (length, isBeyond) = size.multipliedReportingOverflow(by: count)
                guard !isBeyond, length <= body.bytesMax - body.bytes.count else { return 0 }
                body.bytes += UnsafeRawBufferPointer(start: bytes, count: length)
                return length
            },
            Unmanaged.passUnretained(body).toOpaque()
        )
        tideline_curl_set_text(easy, CURLOPT_URL, url.absoluteString)
        tideline_curl_allow_only_http(easy)
        tideline_curl_set_long(easy, CURLOPT_NOSIGNAL, 1)
        tideline_curl_set_long(easy, CURLOPT_FOLLOWLOCATION, 0)
        tideline_curl_set_long(easy, CURLOPT_SSL_VERIFYPEER, 1)
        tideline_curl_set_long(easy, CURLOPT_SSL_VERIFYHOST, 2)
        tideline_curl_set_long(easy, CURLOPT_TIMEOUT_MS, milliseconds)
        tideline_curl_set_long(easy, CURLOPT_HTTP09_ALLOWED, 0)
        if let host = url.host, Self.isLoopback(host) {
            tideline_curl_set_text(easy, CURLOPT_PROXY, "")
        }
        let code = withExtendedLifetime(body) { curl_easy_perform(easy) }
        guard code == CURLE_OK else {
            if code == CURLE_WRITE_ERROR {
                throw FetchError("the document is larger than \(bytesMax) bytes")
            }
            throw FetchError(String(cString: curl_easy_strerror(code)))
        }
        let redirect = tideline_curl_redirect(easy).map { String(cString: $0) }
        return (tideline_curl_status(easy), redirect, body.bytes)
    }
}
