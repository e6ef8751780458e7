// TransportStream: an answer whose body is read while it comes.

public import TidelineCore

/// An answer that goes on: its head has arrived, its body comes in pieces.
///
/// Leaving the loop over ``bytes`` ends the call.
public struct TransportStream: Sendable {
    /// The status code.
    public var status: Int

    /// The header fields.
    public var headers: HTTPFields

    /// The pieces of the body, decoded; a connection that breaks is an error.
    public var bytes: AsyncThrowingStream<[UInt8], any Error>

    /// Makes an answer.
    public init(
        status: Int,
        headers: HTTPFields = [:],
        bytes: AsyncThrowingStream<[UInt8], any Error>
    ) {
        self.status = status
        self.headers = headers
        self.bytes = bytes
    }

    /// How many pieces wait for the reader at most; a reader that is slower loses the call.
    package static let piecesMax = 1000
}

extension Transport {
    /// Refuses: a transport without streams serves all but live updates, which are polled then.
    ///
    /// - Throws: ``TransportError`` with code `unsupported`, always.
    public func stream(_ request: TransportRequest) async throws -> TransportStream {
        throw TransportError(
            .unsupported,
            "This transport has no streams. Changes are fetched on schedule.",
            outcomeIsUnknown: false
        )
    }
}
