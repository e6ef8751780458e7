// ServerRequest, ServerResponse: what the HTTP layer hands in and takes back. They know
// nothing of it, so that it can be replaced and left out (the in-process door of the test kit).

public import TidelineCore

/// A request whose head was checked and whose body is complete.
public struct ServerRequest: Sendable {
    /// The method as sent, such as `PATCH`.
    public var method: String
    /// The path as sent, percent-encoded, without the query.
    public var path: String
    /// The query as sent, percent-encoded, without the question mark; empty when there is none.
    public var query: String
    /// The header fields.
    public var headers: HTTPFields
    /// The body; empty when there is none.
    public var body: [UInt8]
    /// The name of the request in its answer and in the log; empty until it has one.
    public var id = ""
    /// Where it came from, an IP address; empty where that is not known.
    package var address = ""
    /// Whether it comes from this machine.
    ///
    /// A request without a socket does; a request that came through a proxy does not, whatever the proxy
    /// says about its caller.
    package var isLocal: Bool {
        (address.isEmpty || IPAddress(address)?.isLoopback == true) && !isForwarded
    }
    /// Whether a proxy has handed it on, as its head says.
    package var isForwarded: Bool {
        headers.contains { field in
            ["forwarded", "via", "x-real-ip"].contains(where: field.isNamed)
                || field.name.lowercased().hasPrefix("x-forwarded-")
        }
    }
    /// The connection that it came on; 0 for none.
    package var connection = 0

    /// Makes a request.
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

/// An answer.
public struct ServerResponse: Sendable {
    /// The status code.
    public var status: Int
    /// The header fields, without those of framing.
    public var headers: HTTPFields
    /// The body; empty when there is none.
    public var body: [UInt8]
    /// The stream that follows the head instead of a body; nil for an answer that ends.
    package var stream: EventStream?
    /// The answer's share of the memory for answers; nil for a small one.
    package var share: AnswerShare?

    /// Makes an answer.
    public init(status: Int, headers: HTTPFields = [:], body: [UInt8] = []) {
        self.status = status
        self.headers = headers
        self.body = body
    }
}
