// URLSessionTransport: the transport of Apple platforms.
//
// Not used on Linux, where URLSession was measured to hang, to spin and to crash when a
// server cuts a connection. Everything that URLSession does by itself is switched off.

#if canImport(Darwin)
import Foundation
import TidelineCore

/// The transport of Apple platforms: an ephemeral session without cookies and cache.
public final class URLSessionTransport: Transport {
    private let limits: TransportLimits
    private let session: URLSession

    /// Makes a session of its own.
    ///
    /// - Parameter limits: The bounds besides the timeout of each request.
    public init(limits: TransportLimits = TransportLimits()) {
        self.limits = limits
        let configuration = URLSessionConfiguration.ephemeral
        configuration.urlCache = nil
        configuration.httpCookieStorage = nil
        configuration.httpShouldSetCookies = false
        configuration.urlCredentialStorage = nil
        configuration.requestCachePolicy = .reloadIgnoringLocalCacheData
        configuration.httpMaximumConnectionsPerHost = limits.callsMax
        session = URLSession(
            configuration: configuration,
            delegate: nil,
            delegateQueue: nil
        )
    }

    deinit {
        // Calls that still run hold the session until it is invalidated.
        session.invalidateAndCancel()
    }

    /// Sends a request; see ``Transport/send(_:)``.
    public func send(_ request: TransportRequest) async throws -> TransportResponse {
        try EndpointRules.check(request.url, allowsInsecure: true)
        return try await withThrowingTaskGroup(of: TransportResponse.self) { group in
            group.addTask { try await self.perform(request) }
            group.addTask {
                // URLSession's own timer starts again with every byte; this one does not.
                try await Task.sleep(for: request.timeout)
                throw TransportError.timedOut(request.url, wasSent: true)
            }
            defer { group.cancelAll() }
            guard let response = try await group.next() else { throw CancellationError() }
            return response
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
                "The response of \(EndpointRules.name(of: url)) is too large. Ask for less.",
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
