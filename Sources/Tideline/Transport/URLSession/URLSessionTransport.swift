// URLSessionTransport: the transport for Apple platforms.
//
// It is not used on Linux, where measurements showed that URLSession hangs, spins, or crashes if a
// server cuts a connection. All automatic behavior of URLSession is turned off.

#if canImport(Darwin)
import Foundation
import TidelineCore

/// A transport for Apple platforms: an ephemeral session without cookies or cache.
public final class URLSessionTransport: Transport {
    private let limits: TransportLimits
    private let session: URLSession
    private let authorities: CertificateAuthorities?

    /// Creates a transport with its own session.
    ///
    /// - Parameters:
    ///   - limits: The limits in addition to the timeout of each request.
    ///   - certificateAuthorities: The path of a PEM file with certificate authorities to trust in
    ///     addition to the system's. TLS is always verified.
    public init(
        limits: TransportLimits = TransportLimits(),
        certificateAuthorities: String? = nil
    ) {
        self.limits = limits
        authorities = certificateAuthorities.map(CertificateAuthorities.init)
        let configuration = URLSessionConfiguration.ephemeral
        configuration.urlCache = nil
        configuration.httpCookieStorage = nil
        configuration.httpShouldSetCookies = false
        configuration.urlCredentialStorage = nil
        configuration.requestCachePolicy = .reloadIgnoringLocalCacheData
        configuration.httpMaximumConnectionsPerHost = max(1, limits.callsMax)
        session = URLSession(
            configuration: configuration,
            delegate: authorities,
            delegateQueue: nil
        )
    }

    deinit {
        // Running calls retain the session until it is invalidated.
        session.invalidateAndCancel()
    }

    /// Sends a request; see ``Transport/send(_:)``.
    ///
    /// - Throws: ``TransportError``, with code `invalidRequest` if the request cannot be sent
    ///   unchanged, or `CancellationError`.
    public func send(_ request: TransportRequest) async throws -> TransportResponse {
        try EndpointRules.check(request.url, allowsInsecure: true)
        try authorities?.check()
        return try await withThrowingTaskGroup(of: TransportResponse.self) { group in
            group.addTask { try await self.perform(request) }
            group.addTask {
                // URLSession's own timer restarts with every byte; this timer does not.
                try await Task.sleep(for: request.timeout.clampedForTimers)
                throw TransportError.timedOut(request.url, wasSent: true)
            }
            defer { group.cancelAll() }
            guard let response = try await group.next() else { throw CancellationError() }
            return response
        }
    }

    /// Sends a request and returns its head; see ``Transport/stream(_:)``.
    ///
    /// - Throws: ``TransportError``, with code `invalidRequest` if the request cannot be sent
    ///   unchanged, or `CancellationError`.
    public func stream(_ request: TransportRequest) async throws -> TransportStream {
        try EndpointRules.check(request.url, allowsInsecure: true)
        try authorities?.check()
        var sent = makeRequest(request)
        // URLSession limits the time without data, and events may be far apart.
        sent.timeoutInterval = Self.streamSilenceMax
        let (pieces, continuation) = AsyncThrowingStream.makeStream(
            of: [UInt8].self,
            bufferingPolicy: .bufferingOldest(TransportStream.piecesMax)
        )
        let (bytes, response) = try await opened(sent, within: request.timeout)
        guard let response = response as? HTTPURLResponse else {
            throw TransportError.invalidResponse(request.url)
        }
        let url = request.url
        let reader = Task {
            do {
                var line: [UInt8] = []
                for try await byte in bytes {
                    line.append(byte)
                    guard byte == UInt8(ascii: "\n") || line.count >= Self.pieceBytesMax else {
                        continue
                    }
                    switch continuation.yield(line) {
                    case .enqueued: line.removeAll(keepingCapacity: true)
                    case .dropped: throw TransportError.connectionLost(url)
                    default: return
                    }
                }
                continuation.finish()
            } catch let error as URLError {
                continuation.finish(throwing: Self.translate(error, url))
            } catch {
                continuation.finish(throwing: error)
            }
        }
        continuation.onTermination = { _ in reader.cancel() }
        return TransportStream(
            status: response.statusCode,
            headers: fields(of: response),
            bytes: pieces
        )
    }

    /// The longest time without data in a streamed call: a day.
    private static let streamSilenceMax: TimeInterval = 86_400

    /// The size at which a part of a streamed body without line ends is cut off, in bytes.
    private static let pieceBytesMax = 4096

    private func opened(
        _ request: URLRequest,
        within timeout: Duration
    ) async throws -> (URLSession.AsyncBytes, URLResponse) {
        let url = request.url ?? URL(filePath: "/")
        return try await withThrowingTaskGroup(
            of: (URLSession.AsyncBytes, URLResponse).self
        ) { group in
            group.addTask {
                do {
                    return try await self.session.bytes(
                        for: request,
                        delegate: RedirectBlocker()
                    )
                } catch let error as URLError {
                    throw Self.translate(error, url)
                }
            }
            group.addTask {
                try await Task.sleep(for: timeout.clampedForTimers)
                throw TransportError.timedOut(url, wasSent: true)
            }
            defer { group.cancelAll() }
            guard let opened = try await group.next() else { throw CancellationError() }
            return opened
        }
    }

    private func perform(_ request: TransportRequest) async throws -> TransportResponse {
        do {
            let task = session.dataTask(with: makeRequest(request))
            let receiver = SessionReceiver(bytesMax: limits.responseBytesMax)
            task.delegate = receiver
            let received = try await withTaskCancellationHandler {
                try await withCheckedThrowingContinuation { continuation in
                    receiver.attach(continuation)
                    task.resume()
                }
            } onCancel: {
                task.cancel()
            }
            guard !received.isTooLarge else {
                throw TransportError.responseTooLarge(
                    request.url,
                    limit: limits.responseBytesMax
                )
            }
            guard let response = received.response as? HTTPURLResponse else {
                throw TransportError.invalidResponse(request.url)
            }
            return TransportResponse(
                status: response.statusCode,
                headers: fields(of: response),
                body: received.body
            )
        } catch let error as URLError {
            throw Self.translate(error, request.url)
        }
    }

    private func makeRequest(_ request: TransportRequest) -> URLRequest {
        var result = URLRequest(url: request.url)
        result.httpMethod = request.method
        for field in request.headers {
            result.addValue(field.value, forHTTPHeaderField: field.name)
        }
        result.httpBody = request.body.map { Data($0) }
        result.httpShouldHandleCookies = false
        result.timeoutInterval = min(request.timeout, limits.stallTimeout) / .seconds(1)
        return result
    }

    private func fields(of response: HTTPURLResponse) -> HTTPFields {
        var fields = HTTPFields()
        for (name, value) in response.allHeaderFields {
            guard let name = name as? String, let value = value as? String else { continue }
            fields.append(name, value)
        }
        return fields
    }

    private static func translate(_ error: URLError, _ url: URL) -> any Error {
        switch error.code {
        case .cancelled:
            CancellationError()
        case .timedOut:
            TransportError.timedOut(url, wasSent: true, cause: error)
        case .cannotFindHost, .cannotConnectToHost, .dnsLookupFailed, .notConnectedToInternet,
            .internationalRoamingOff, .dataNotAllowed, .callIsActive:
            TransportError.cannotConnect(url, cause: error)
        case .networkConnectionLost:
            TransportError.connectionLost(url, cause: error)
        case .secureConnectionFailed, .serverCertificateHasBadDate,
            .serverCertificateHasUnknownRoot, .serverCertificateNotYetValid,
            .serverCertificateUntrusted, .clientCertificateRejected, .clientCertificateRequired:
            TransportError.tls(url, wasSent: true, cause: error)
        case .appTransportSecurityRequiresSecureConnection:
            TransportError.insecure(url)
        case .badServerResponse, .cannotParseResponse, .cannotDecodeContentData,
            .cannotDecodeRawData:
            TransportError.invalidResponse(url, cause: error)
        case .dataLengthExceedsMaximum:
            TransportError(
                .responseTooLarge,
                "The response of \(EndpointRules.name(of: url)) is too large. Request smaller pages.",
                outcomeIsUnknown: true,
                cause: error
            )
        case .badURL, .unsupportedURL:
            TransportError.invalidRequest(
                "The address is not an http or https URL. Use https.",
                cause: error
            )
        default:
            TransportError.failed(url, wasSent: true, cause: error)
        }
    }
}
#endif
