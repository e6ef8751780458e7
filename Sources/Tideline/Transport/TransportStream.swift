// TransportStream: a response whose body is read as it arrives.

public import TidelineCore

/// A streamed response, whose head has arrived and whose body arrives in parts.
///
/// Leaving the loop over ``bytes`` ends the call.
public struct TransportStream: Sendable {
    /// The status code.
    public var status: Int

    /// The header fields.
    public var headers: HTTPFields

    /// The parts of the body, decoded.
    ///
    /// A broken connection throws an error.
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

    /// The maximum number of parts that are buffered for the reader; the call fails if the reader is slower.
    package static let piecesMax = 1000
}

extension Transport {
    /// Always throws.
    ///
    /// A transport without streams supports everything except live updates, which are then polled.
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
