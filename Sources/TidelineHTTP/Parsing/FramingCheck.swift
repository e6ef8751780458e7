// FramingCheck: prevents request smuggling (RFC 9112 sections 3.2, 5.1 and 6.3).
//
// Pure: its input is bytes. The order of calls is
//
//     field(name:value:)* -> finish(isVersion11:)

/// A check that rejects a request head if two HTTP parsers could disagree about its end.
package struct FramingCheck: Sendable {
    /// The announced length of the body; a value above 2^50 only means that it is larger.
    package private(set) var contentLength: Int?
    /// Whether the body is chunked.
    package private(set) var isChunked = false
    /// The first error, as a sentence for the caller.
    package private(set) var problem: String?

    private var hasHost = false

    package init() {}

    /// Checks one field; white space around the value has been removed.
    package mutating func field(name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer) {
        if name.isEmpty || !name.allSatisfy(Self.isToken) {
            reject("A header name has a character that is not allowed.")
        }
        if value.contains(where: Self.isControl) {
            reject("A header value has a control character.")
        }
        switch name.count {
        case 4 where name.equalsIgnoringCase("host"): host(value)
        case 14 where name.equalsIgnoringCase("content-length"): length(value)
        case 17 where name.equalsIgnoringCase("transfer-encoding"): encoding(value)
        default: break
        }
    }

    /// Checks everything that depends on the whole head.
    package mutating func finish(isVersion11: Bool) {
        if isVersion11 && !hasHost { reject("The Host header is missing.") }
        if isChunked && contentLength != nil {
            reject("Content-Length and Transfer-Encoding cannot be combined.")
        }
        if isChunked && !isVersion11 { reject("Transfer-Encoding requires HTTP/1.1.") }
    }

    /// Checks a name or an address, and a port (RFC 9110 section 7.2); empty if the caller sends none.
    private mutating func host(_ value: UnsafeRawBufferPointer) {
        if hasHost { reject("There is more than one Host header.") }
        hasHost = true
        let isAddress = value.first == UInt8(ascii: "[")
        let nameEnd =
            isAddress
            ? (value.firstIndex(of: UInt8(ascii: "]")) ?? -1) + 1
            : value.firstIndex(of: UInt8(ascii: ":")) ?? value.count
        let name = value[..<nameEnd]
        let port = value[nameEnd...]
        let number = port.dropFirst().reduce(0) { min($0 * 10 + Int($1 &- 0x30), 65_536) }
        let isNamed =
            isAddress
            ? nameEnd > 2 && name.dropFirst().dropLast().allSatisfy(Self.isInAddress)
            : name.allSatisfy(Self.isInName)
        guard isNamed, port.isEmpty || port.first == UInt8(ascii: ":"),
            port.dropFirst().allSatisfy(Self.isDigit), number < 65_536
        else { return reject("The Host header is not a name or an address with a port.") }
    }

    private static func isInAddress(_ byte: UInt8) -> Bool {
        isDigit(byte) || byte == UInt8(ascii: ":") || byte == UInt8(ascii: ".")
            || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte | 0x20)
    }

    /// Whether the byte is in `unreserved`, `pct-encoded` or `sub-delims` of RFC 3986, and cannot end a link.
    private static func isInName(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        case 0x21, 0x24...0x2B, 0x2D, 0x2E, 0x3D, 0x5F, 0x7E: true  // ! $%&'()*+ - . = _ ~
        default: false
        }
    }

    private mutating func length(_ value: UnsafeRawBufferPointer) {
        if contentLength != nil { reject("There is more than one Content-Length header.") }
        guard !value.isEmpty, value.allSatisfy(Self.isDigit) else {
            contentLength = 0
            return reject("Content-Length is not a number of bytes.")
        }
        contentLength = value.reduce(0) { length, digit in
            // Far beyond any limit, and far below the largest integer.
            length > 1 << 50 ? .max >> 4 : length * 10 + Int(digit - 0x30)
        }
    }

    private mutating func encoding(_ value: UnsafeRawBufferPointer) {
        if isChunked { reject("There is more than one Transfer-Encoding header.") }
        if !value.equalsIgnoringCase("chunked") {
            reject("The only supported Transfer-Encoding is chunked.")
        }
        isChunked = true
    }

    private mutating func reject(_ reason: String) {
        if problem == nil { problem = reason }
    }

    static func isDigit(_ byte: UInt8) -> Bool { byte >= 0x30 && byte <= 0x39 }

    static func isControl(_ byte: UInt8) -> Bool {
        byte < 0x20 && byte != 0x09 || byte == 0x7F
    }

    /// Whether the byte is a `tchar` (RFC 9110 section 5.6.2).
    static func isToken(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        case 0x21, 0x23...0x27, 0x2A, 0x2B, 0x2D, 0x2E, 0x5E...0x60, 0x7C, 0x7E: true
        default: false
        }
    }
}
