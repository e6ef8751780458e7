// ServerGeneration: which generation of server a client speaks to, as an app chooses it.

/// Which generation of server is behind an endpoint.
///
/// All serve tables under `/tables`. They differ in the form of lists, of dates in filters, and in
/// how a deleted row is shown and brought back.
public enum ServerGeneration: Sendable, Hashable {
    /// Learned from the server's answers and remembered for the endpoint.
    ///
    /// It costs one more request, once, in front of a classic server.
    case automatic
    /// The original Azure Mobile Apps servers, Node and .NET, which want version 2.0.0.
    case classic
    /// Tideline's own server, and Datasync servers.
    case datasync
}
