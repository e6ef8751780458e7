// TransportError: the reason that a call returned no response, and whether the server may have
// received the request.
//
// This file contains all messages. They name the origin, and never contain a path, a query, a
// header, or a body.

public import Foundation

/// An error from a call that returned no response.
///
/// Check ``outcomeIsUnknown`` before you assume that a change was not made: a broken connection
/// does not show what the server did with the request.
public struct TransportError: LocalizedError, Sendable, CustomStringConvertible {
    /// The kind of an error.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Kind: String, Sendable {
            case cannotConnect
            case timedOut
            case connectionLost
            case incompleteResponse
            case invalidResponse
            case responseTooLarge
            case tls
            case insecure
            case invalidRequest
            case unsupported
            case noToken
            case failed
        }
        private let kind: Kind
        private init(_ kind: Kind) { self.kind = kind }

        /// No connection could be established; nothing was sent.
        public static let cannotConnect = Self(.cannotConnect)
        /// The request was sent, but no complete response arrived in time.
        public static let timedOut = Self(.timedOut)
        /// The connection ended before a response began.
        public static let connectionLost = Self(.connectionLost)
        /// The connection ended in the middle of the response.
        public static let incompleteResponse = Self(.incompleteResponse)
        /// The received data is not HTTP.
        public static let invalidResponse = Self(.invalidResponse)
        /// The response exceeds the transport's limit.
        public static let responseTooLarge = Self(.responseTooLarge)
        /// The server could not be authenticated, or TLS failed.
        public static let tls = Self(.tls)
        /// Plain http to another machine was not allowed; nothing was sent.
        public static let insecure = Self(.insecure)
        /// The request is invalid; nothing was sent.
        public static let invalidRequest = Self(.invalidRequest)
        /// The transport does not support the call.
        public static let unsupported = Self(.unsupported)
        /// The app's authentication did not provide a token for the request; nothing was sent.
        public static let noToken = Self(.noToken)
        /// Any other failure; see `cause`.
        public static let failed = Self(.failed)

        /// The name of the code.
        public var description: String { kind.rawValue }
    }

    /// The kind of the error.
    public var code: Code

    /// A description of the failure for people, with advice on how to fix it.
    public var message: String

    /// Whether the server may have received the request; false only if the server certainly did
    /// not.
    public var outcomeIsUnknown: Bool

    /// The underlying error.
    public var cause: (any Error)?

    /// Creates an error.
    public init(
        _ code: Code,
        _ message: String,
        outcomeIsUnknown: Bool,
        cause: (any Error)? = nil
    ) {
        self.code = code
        self.message = message
        self.outcomeIsUnknown = outcomeIsUnknown
        self.cause = cause
    }

    /// The code, followed by the message.
    public var description: String { "\(code): \(message)" }

    /// The message, which `localizedDescription` shows.
    public var errorDescription: String? { message }
}

extension TransportError {
    static func cannotConnect(_ url: URL, cause: (any Error)? = nil) -> Self {
        TransportError(
            .cannotConnect,
            """
            No connection to \(EndpointRules.name(of: url)); nothing was sent. Check the \
            endpoint's address and the network, then try again.
            """,
            outcomeIsUnknown: false,
            cause: cause
        )
    }

    /// Returns the error for a call that exceeded its timeout.
    ///
    /// If nothing was sent, the error states that the call could not connect.
    static func timedOut(_ url: URL, wasSent: Bool, cause: (any Error)? = nil) -> Self {
        guard wasSent else { return cannotConnect(url, cause: cause) }
        return TransportError(
            .timedOut,
            """
            \(EndpointRules.name(of: url)) sent no complete response in time; the server may \
            have executed the request. Try again, or allow a longer timeout.
            """,
            outcomeIsUnknown: true,
            cause: cause
        )
    }

    static func connectionLost(_ url: URL, cause: (any Error)? = nil) -> Self {
        TransportError(
            .connectionLost,
            """
            The connection to \(EndpointRules.name(of: url)) ended before a response; the \
            server may have executed the request. Try again.
            """,
            outcomeIsUnknown: true,
            cause: cause
        )
    }

    static func incompleteResponse(_ url: URL, cause: (any Error)? = nil) -> Self {
        TransportError(
            .incompleteResponse,
            """
            The connection to \(EndpointRules.name(of: url)) ended during the response; the \
            server may have executed the request. Try again.
            """,
            outcomeIsUnknown: true,
            cause: cause
        )
    }

    static func invalidResponse(_ url: URL, cause: (any Error)? = nil) -> Self {
        TransportError(
            .invalidResponse,
            """
            \(EndpointRules.name(of: url)) did not send a valid HTTP response. Check \
            that the endpoint is the sync server and not another service or a login page.
            """,
            outcomeIsUnknown: true,
            cause: cause
        )
    }

    static func responseTooLarge(_ url: URL, limit: Int) -> Self {
        TransportError(
            .responseTooLarge,
            """
            The response of \(EndpointRules.name(of: url)) is larger than \(limit) bytes. Request \
            smaller pages, or raise 'responseBytesMax' of the transport.
            """,
            outcomeIsUnknown: true
        )
    }

    static func tls(_ url: URL, wasSent: Bool, cause: (any Error)? = nil) -> Self {
        TransportError(
            .tls,
            """
            No trusted TLS connection to \(EndpointRules.name(of: url)). Check the server's \
            certificate, the name in the endpoint and the clock of this device.
            """,
            outcomeIsUnknown: wasSent,
            cause: cause
        )
    }

    static func insecure(_ url: URL) -> Self {
        TransportError(
            .insecure,
            """
            \(EndpointRules.name(of: url)) is plain http, so the network could read and \
            change the data. Nothing was sent. Use an https endpoint, or pass \
            'allowsInsecureEndpoint: true' when you create the client.
            """,
            outcomeIsUnknown: false
        )
    }

    static func invalidRequest(_ message: String, cause: (any Error)? = nil) -> Self {
        TransportError(.invalidRequest, message, outcomeIsUnknown: false, cause: cause)
    }

    static func failed(_ url: URL, wasSent: Bool, cause: (any Error)?) -> Self {
        TransportError(
            .failed,
            "The call to \(EndpointRules.name(of: url)) failed. See the 'cause' of this error.",
            outcomeIsUnknown: wasSent,
            cause: cause
        )
    }
}
