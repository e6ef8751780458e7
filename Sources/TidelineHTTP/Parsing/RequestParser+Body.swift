// RequestParser+Body: the body of a request, by its length or in chunks (RFC 9112 sections 6, 7).

import TidelineServerCore

extension RequestParser {
    /// Parses a part of the body; returns the number of bytes taken, at least one.
    mutating func takeBody(_ bytes: UnsafeRawBufferPointer) -> Int {
        switch framing {
        case .length(let left):
            let count = takeData(bytes, left)
            framing = .length(left: left - count)
            if count == left { phase = .complete }
            return count
        case .chunkSize:
            return takeLine(bytes) { $0.chunkSize($1) }
        case .chunkData(let left):
            let count = takeData(bytes, left)
            framing = count == left ? .chunkEnd : .chunkData(left: left - count)
            return count
        case .chunkEnd:
            return takeLine(bytes) { $0.chunkEnd($1) }
        case .trailer:
            return takeLine(bytes) { $0.trailer($1) }
        }
    }

    private mutating func takeData(_ bytes: UnsafeRawBufferPointer, _ left: Int) -> Int {
        let count = min(left, bytes.count)
        request.body.append(contentsOf: bytes[..<count])
        return count
    }

    /// Parses the size of a chunk; skips extensions, which no client is known to send.
    private mutating func chunkSize(_ line: UnsafeRawBufferPointer) {
        let digits = line.prefix { Self.hexadecimal($0) != nil }
        let extensions = line[digits.count...].drop { $0 == 0x20 || $0 == 0x09 }
        let isPlain = digits.count == line.count
        guard !digits.isEmpty, isPlain || extensions.first == UInt8(ascii: ";"),
            !extensions.contains(where: FramingCheck.isControl)
        else { return reject(.malformed("A chunk does not begin with its size.")) }
        var size = 0
        for digit in digits {
            if size > bodyBytesMax >> 4 { return reject(.bodyTooLarge) }
            size = size << 4 | Int(Self.hexadecimal(digit) ?? 0)
            if size > bodyBytesMax - request.body.count { return reject(.bodyTooLarge) }
        }
        lineBytes = 0
        framing = size == 0 ? .trailer : .chunkData(left: size)
    }

    private mutating func chunkEnd(_ line: UnsafeRawBufferPointer) {
        guard line.isEmpty else { return reject(.malformed("A chunk is longer than its size.")) }
        lineBytes = 0
        framing = .chunkSize
    }

    /// Checks and drops a field after a chunked body (RFC 9110 section 6.5.1).
    private mutating func trailer(_ line: UnsafeRawBufferPointer) {
        if line.isEmpty {
            phase = .complete
            return
        }
        let colon = line.firstIndex(of: UInt8(ascii: ":")) ?? 0
        guard colon > 0, line[..<colon].allSatisfy(FramingCheck.isToken),
            !line.contains(where: FramingCheck.isControl)
        else { return reject(.malformed("A line after the last chunk is not a header line.")) }
    }

    private static func hexadecimal(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
