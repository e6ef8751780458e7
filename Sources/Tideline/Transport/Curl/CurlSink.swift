// CurlSink: passes streamed responses to a reader.

#if canImport(CCurl)
/// A receiver of the parts of a streamed response, which passes them from the loop to the reader.
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
