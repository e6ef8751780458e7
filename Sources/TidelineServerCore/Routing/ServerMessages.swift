// ServerRequest, ServerResponse: the types that the HTTP layer passes to the server and gets back. They do not depend
// on that layer, so that it can be replaced, or left out as in the test kit.

public import TidelineCore

/// A request with a valid head and a complete body.
public struct ServerRequest: Sendable {
    /// The method as sent, such as `PATCH`.
    public var method: String
    /// The path as sent, percent-encoded, without the query.
    public var path: String
    /// The query as sent, percent-encoded, without the question mark; empty if there is none.
    public var query: String
    /// The header fields.
    public var headers: HTTPFields
    /// The body; empty if there is none.
    public var body: [UInt8]
    /// The id of the request for its response and the log; empty until it has one.
    public var id = ""
    /// The IP address of the client; empty if it is not known.
    package var address = ""
    /// Whether the request comes from this machine.
    ///
    /// This is true for a request without a socket. It is false for a request through a proxy, whatever address
    /// the proxy reports.
    package var isLocal: Bool {
        (address.isEmpty || IPAddress(address)?.isLoopback == true) && !isForwarded
    }
    /// Whether the header fields show that a proxy has forwarded the request.
    package var isForwarded: Bool {
        headers.contains { field in
            ["forwarded", "via", "x-real-ip"].contains(where: field.isNamed)
                || field.name.lowercased().hasPrefix("x-forwarded-")
        }
    }
    /// The connection that received the request; 0 for none.
    package var connection = 0

    /// Creates a request.
    public init(
        method: String,
        path: String,
        query: String = "",
        headers: HTTPFields = [:],
        body: [UInt8] = []
    ) {
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.body = body
    }
}

/// A response of the server.
public struct ServerResponse: Sendable {
    /// The status code.
    public var status: Int
    /// The header fields, without those for framing.
    public var headers: HTTPFields
    /// The body; empty if there is none.
    public var body: [UInt8]
    /// The event stream that follows the head; nil for a response with a body.
    package var stream: EventStream?
    /// The memory reservation of the response; nil for a small one.
    package var share: MemoryReservation?

    /// Creates a response.
    public init(status: Int, headers: HTTPFields = [:], body: [UInt8] = []) {
        self.status = status
        self.headers = headers
        self.body = body
    }
}
