// ServerGeneration: the generation of the server, as an app chooses it.

/// The generation of the server at an endpoint.
///
/// All generations serve tables under `/tables`. They differ in the format of lists and of dates in filters,
/// and in how a deleted row is returned and restored.
public enum ServerGeneration: Sendable, Hashable {
    /// Determined from the server's responses, and stored for the endpoint.
    ///
    /// A classic server receives one additional request, once.
    case automatic
    /// The original Azure Mobile Apps servers, Node and .NET, which require version 2.0.0.
    case classic
    /// Tideline's own server, and Datasync servers.
    case datasync
}
