// ContentCoding: gzip, if the caller accepts it (RFC 9110 section 12.5.3).

import CZlib
package import TidelineCore

/// The gzip coding of responses and of the bodies of batches.
package enum ContentCoding {
    /// The size up to which responses are not compressed, because they fit in a packet.
    package static let bytesMin = 1024

    /// The compression level: this one is faster than nearly every network, and higher ones cost more than they
    /// save.
    private static let level: Int32 = 1

    /// Returns whether the caller accepts gzip with at least the weight of `identity`.
    package static func acceptsGzip(_ headers: HTTPFields) -> Bool {
        guard let field = headers["Accept-Encoding"] else { return false }
        var gzip: Int?
        var others: Int?
        var identity: Int?
        for part in field.split(separator: ",") {
            let words = part.split(separator: ";").map { $0.filter { $0 != " " && $0 != "\t" } }
            guard let name = words.first else { continue }
            guard let weight = weight(words.dropFirst()) else { return false }
            if ASCII.equal(name, "gzip") || ASCII.equal(name, "x-gzip") {
                gzip = max(gzip ?? 0, weight)
            } else if name == "*" {
                others = weight
            } else if ASCII.equal(name, "identity") {
                identity = weight
            }
        }
        let wish = gzip ?? others ?? 0
        return wish > 0 && wish >= identity ?? 0
    }

    /// Returns the weight in thousandths: 1000 without `q`, nil if it is malformed.
    private static func weight(_ parameters: ArraySlice<String>) -> Int? {
        for parameter in parameters where parameter.lowercased().hasPrefix("q=") {
            let text = parameter.dropFirst(2)
            let digits = text.dropFirst(2)
            guard text.utf8.first == UInt8(ascii: "0") || text.utf8.first == UInt8(ascii: "1"),
                text.utf8.count < 2 || text.utf8.dropFirst().first == UInt8(ascii: "."),
                digits.utf8.count <= 3, digits.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 })
            else { return nil }
            let scaled = digits + String(repeating: "0", count: 3 - digits.count)
            let weight = (text.first == "1" ? 1000 : 0) + (Int(scaled) ?? 0)
            return weight <= 1000 ? weight : nil
        }
        return 1000
    }

    /// Returns the bytes as one gzip member, or nil if that would not be smaller.
    package static func gzip(_ bytes: [UInt8]) -> [UInt8]? {
        guard bytes.count < Int(UInt32.max) else { return nil }
        var stream = z_stream()
        guard tideline_gzip_begin(&stream, level) == Z_OK else { return nil }
        defer { deflateEnd(&stream) }
        let capacity = bytes.count
        var isWhole = false
        let result = [UInt8](unsafeUninitializedCapacity: capacity) { buffer, count in
            bytes.withUnsafeBufferPointer { input in
                // zlib does not write to its input, but its type lacks `const`.
                stream.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
                stream.avail_in = UInt32(input.count)
                stream.next_out = buffer.baseAddress
                stream.avail_out = UInt32(buffer.count)
                isWhole = deflate(&stream, Z_FINISH) == Z_STREAM_END
            }
            count = isWhole ? Int(stream.total_out) : 0
        }
        // The copy has the right size; the capacity for the uncompressed bytes is freed.
        return isWhole ? Array(result[...]) : nil
    }

    /// Returns the size that a gzip member declares in its last four bytes; nil if the data is too
    /// short.
    ///
    /// The declared size is not trusted: ``gunzip(_:count:)`` produces no more bytes than that.
    package static func plainCount(ofGzip bytes: [UInt8]) -> Int? {
        // A member has at least a header of 10 bytes, a checksum and a length.
        guard bytes.count >= 18 else { return nil }
        return bytes.suffix(4).reversed().reduce(0) { $0 << 8 | Int($1) }
    }

    /// Returns the contents of one gzip member.
    ///
    /// Returns nil if the data is not a gzip member, is truncated, has a different checksum or
    /// size, or is followed by other bytes.
    package static func gunzip(_ bytes: [UInt8], count: Int) -> [UInt8]? {
        guard bytes.count < Int(UInt32.max), count < Int(UInt32.max) else { return nil }
        var stream = z_stream()
        guard tideline_gunzip_begin(&stream) == Z_OK else { return nil }
        defer { inflateEnd(&stream) }
        var isWhole = false
        // One byte more, so that the buffer for empty contents is not empty.
        let result = [UInt8](unsafeUninitializedCapacity: count + 1) { buffer, filled in
            bytes.withUnsafeBufferPointer { input in
                stream.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
                stream.avail_in = UInt32(input.count)
                stream.next_out = buffer.baseAddress
                stream.avail_out = UInt32(count + 1)
                isWhole = inflate(&stream, Z_FINISH) == Z_STREAM_END
            }
            filled = isWhole ? Int(stream.total_out) : 0
        }
        return isWhole && stream.avail_in == 0 && result.count == count ? result : nil
    }
}

extension ServerResponse {
    /// Compresses the body if it is large enough and the caller accepts gzip.
    mutating func compress(for request: ServerRequest, on threads: GzipThreads) async {
        guard body.count > ContentCoding.bytesMin else { return }
        headers.append("Vary", "Accept-Encoding")
        guard ContentCoding.acceptsGzip(request.headers) else { return }
        let small =
            body.count > GzipThreads.bytesMin
            ? await threads.gzip(body) : ContentCoding.gzip(body)
        guard let small else { return }
        body = small
        share?.resize(to: small.count)
        headers.append("Content-Encoding", "gzip")
    }
}
