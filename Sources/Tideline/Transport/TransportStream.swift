// TransportStream: a response whose body is read while it arrives.

public import TidelineCore

/// A streamed response: the head has arrived, and the body arrives in parts.
///
/// The call ends when you stop iterating over ``bytes``.
public struct TransportStream: Sendable {
    /// The status code.
    public var status: Int

    /// The header fields.
    public var headers: HTTPFields

    /// The decoded parts of the body.
    ///
    /// The sequence throws an error if the connection breaks.
    public var bytes: AsyncThrowingStream<[UInt8], any Error>

    /// Creates a streamed response.
    public init(
        status: Int,
        headers: HTTPFields = [:],
        bytes: AsyncThrowingStream<[UInt8], any Error>
    ) {
        self.status = status
        self.headers = headers
        self.bytes = bytes
    }

    /// The maximum number of parts that are buffered for the reader; if the reader falls further
    /// behind, the call fails.
    package static let piecesMax = 1000
}

extension Transport {
    /// Always throws.
    ///
    /// Without streams, a transport supports everything except live updates, which the client then
    /// replaces with polling.
    ///
    /// - Throws: ``TransportError`` with code `unsupported`, always.
    public func stream(_ request: TransportRequest) async throws -> TransportStream {
        throw TransportError(
            .unsupported,
            "This transport does not support streams. Changes are fetched on schedule.",
            outcomeIsUnknown: false
        )
    }
}
