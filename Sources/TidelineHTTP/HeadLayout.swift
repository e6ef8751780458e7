// HeadLayout: proves that the header fields which the library lists are the lines that were sent.
//
// libmicrohttpd 0.9 glues a folded line to the *name* of the field before it, takes a line with an
// empty name for the end of the head, ends a line at a lone CR, and cuts a value at a NUL. Each
// lets a proxy see another request than we do, and none can be told from the fields themselves.
// But the library parses in place, so every name and value is where it arrived, and whatever it
// skipped or moved leaves a gap in
//
//     version CR LF { name ":" OWS value CR LF }* CR LF
//
// Pure arithmetic on addresses. The order is: line(name:value:)* -> finish(headEnd:)

import CMicroHTTPD
import Glibc

struct HeadLayout {
    /// Whether there was no gap so far.
    private(set) var isWhole = true

    /// Where the line break behind the last line begins.
    private var lineEnd: UInt

    /// Version 1 of the library parses strictly, and not in place.
    static let isNeeded = MHD_VERSION < 0x0100_0000

    /// Begins behind the request line, whose last part is the version.
    init(version: UnsafePointer<CChar>) {
        lineEnd = UInt(bitPattern: version) + UInt(strlen(version))
    }

    /// Takes the next field that the library lists.
    mutating func line(name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer) {
        let nameStart = UInt(bitPattern: name.baseAddress)
        let valueStart = UInt(bitPattern: value.baseAddress)
        let colon = nameStart + UInt(name.count)
        guard nameStart == lineEnd + 2, valueStart > colon, let start = name.baseAddress else {
            isWhole = false
            return
        }
        let space = UnsafeRawBufferPointer(
            start: start + name.count + 1,
            count: Int(min(valueStart - colon - 1, 1 << 20))
        )
        if !space.allSatisfy({ $0 == 0x20 || $0 == 0x09 }) { isWhole = false }
        lineEnd = valueStart + UInt(value.count)
    }

    /// Checks that the last field is followed by an empty line, and that by the body.
    mutating func finish(headEnd: UnsafeRawPointer) {
        if UInt(bitPattern: headEnd) != lineEnd + 4 { isWhole = false }
    }
}
