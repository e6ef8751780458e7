// ServerGeneration: the generation of the server, which an app can specify.

/// The generation of the server at an endpoint.
///
/// All generations serve tables under `/tables`. They differ in the format of lists, in the format
/// of dates in filters, and in how deleted rows are returned and restored.
public enum ServerGeneration: Sendable, Hashable {
    /// The client determines the generation from the server's responses, and stores it for the
    /// endpoint.
    ///
    /// If the server is a classic one, it receives a single additional request.
    case automatic
    /// The original Azure Mobile Apps servers for Node and .NET, which require version 2.0.0.
    case classic
    /// Tideline's own server, and Datasync servers.
    case datasync
}
