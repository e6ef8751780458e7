// HTTPServerError: why a server could not start.

/// The reason why an ``HTTPServer`` could not start.
public struct HTTPServerError: Error, Sendable, CustomStringConvertible {
    /// A code for the kind of reason.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Kind: String, Sendable {
            case addressInUse
            case addressInvalid
            case addressNotPermitted
            case addressUnavailable
            case alreadyStarted
            case resourcesExhausted
        }
        private let kind: Kind
        private init(_ kind: Kind) { self.kind = kind }

        /// Another server listens on the address and port.
        public static let addressInUse = Self(.addressInUse)
        /// The host is neither an IP address nor `localhost`, or the port is out of range.
        public static let addressInvalid = Self(.addressInvalid)
        /// The process may not listen on this port.
        public static let addressNotPermitted = Self(.addressNotPermitted)
        /// The address belongs to no network interface of this machine.
        public static let addressUnavailable = Self(.addressUnavailable)
        /// The server was started before.
        public static let alreadyStarted = Self(.alreadyStarted)
        /// The system has no memory, threads or descriptors left.
        public static let resourcesExhausted = Self(.resourcesExhausted)

        /// The name of the code.
        public var description: String { kind.rawValue }
    }

    /// The kind of reason.
    public var code: Code
    /// The description of the error, and how to fix it.
    public var message: String

    /// The message.
    public var description: String { message }

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }
}

extension HTTPServerError {
    static func invalid(host: String) -> HTTPServerError {
        HTTPServerError(
            .addressInvalid,
            """
            '\(host)' is not an address to listen on. Use an IPv4 or IPv6 address of this \
            machine, such as 127.0.0.1, 0.0.0.0 or ::1, or localhost.
            """
        )
    }

    static func invalid(port: Int) -> HTTPServerError {
        HTTPServerError(
            .addressInvalid,
            "\(port) is not a port. Use a number from 1 to 65535, or 0 for a free port."
        )
    }

    static func listening(on address: String, systemError: Int32, text: String) -> HTTPServerError {
        HTTPServerError(
            ListenSocket.code(of: systemError),
            "Cannot listen on \(address): \(text). \(ListenSocket.remedy(of: systemError))"
        )
    }

    static let startedTwice = HTTPServerError(
        .alreadyStarted,
        "This server was started before, and a server can be started only once. Create another one."
    )

    /// The error for a server that is running and must be stopped first.
    package static let running = HTTPServerError(
        .alreadyStarted,
        "This server is running or starting. Stop it before you start it again."
    )

    static func handedOver(_ fault: String) -> HTTPServerError {
        HTTPServerError(
            .addressInvalid,
            """
            The sockets passed by systemd cannot be used: \(fault). In the socket unit, set \
            ListenStream to an address and a port.
            """
        )
    }

    static func exhausted(_ what: String) -> HTTPServerError {
        HTTPServerError(
            .resourcesExhausted,
            "Cannot start the HTTP server: \(what). Check the limits of the process (ulimit -a)."
        )
    }
}
