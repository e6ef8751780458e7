// Gzip: compresses request bodies.

#if canImport(zlib)
import zlib
#else
import CZlib
#endif

/// The compression of a body as one gzip member (RFC 1952).
enum Gzip {
    /// The fastest compression level, because on almost every network, higher levels cost more time
    /// than they save.
    private static let level: Int32 = 1

    /// Returns the bytes as one gzip member; nil if that does not reduce the size by at least an
    /// eighth.
    static func member(of bytes: [UInt8]) -> [UInt8]? {
        guard bytes.count < Int(UInt32.max) else { return nil }
        var stream = z_stream()
        // The value is 15 for a window of 32 KiB, plus 16 for the gzip format.
        let begin = deflateInit2_(
            &stream,
            level,
            Z_DEFLATED,
            15 + 16,
            8,
            Z_DEFAULT_STRATEGY,
            ZLIB_VERSION,
            Int32(MemoryLayout<z_stream>.size)
        )
        guard begin == Z_OK else { return nil }
        defer { deflateEnd(&stream) }
        var isWhole = false
        let capacity = bytes.count - bytes.count / 8
        let result = [UInt8](unsafeUninitializedCapacity: capacity) { buffer, count in
            bytes.withUnsafeBufferPointer { input in
                // zlib does not write to its input, but the type of the pointer is older than
                // `const`.
                stream.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
                stream.avail_in = UInt32(input.count)
                stream.next_out = buffer.baseAddress
                stream.avail_out = UInt32(buffer.count)
                isWhole = deflate(&stream, Z_FINISH) == Z_STREAM_END
            }
            count = isWhole ? Int(stream.total_out) : 0
        }
        return isWhole ? result : nil
    }
}
