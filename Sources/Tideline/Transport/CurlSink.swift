// CurlSink: where the loop puts the pieces of a streamed answer.

#if canImport(CCurl)
struct CurlSink: Sendable {
    private let continuation: AsyncThrowingStream<[UInt8], any Error>.Continuation

    init(_ continuation: AsyncThrowingStream<[UInt8], any Error>.Continuation) {
        self.continuation = continuation
    }

    /// False when nobody reads any more, or too slowly.
    func receive(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        if case .enqueued = continuation.yield(Array(bytes)) { true } else { false }
    }

    func finish(_ error: (any Error)?) { continuation.finish(throwing: error) }
}
#endif
