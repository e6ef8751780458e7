// CurlSink: receives the pieces of a streamed response from the loop.

#if canImport(CCurl)
struct CurlSink: Sendable {
    private let continuation: AsyncThrowingStream<[UInt8], any Error>.Continuation

    init(_ continuation: AsyncThrowingStream<[UInt8], any Error>.Continuation) {
        self.continuation = continuation
    }

    /// Delivers bytes to the reader; returns false if the reader has ended or is too slow.
    func receive(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        if case .enqueued = continuation.yield(Array(bytes)) { true } else { false }
    }

    func finish(_ error: (any Error)?) { continuation.finish(throwing: error) }
}
#endif
