// BatchMembers: parses request objects.

import TidelineCore

/// The members of one request object of a batch, and their rules.
struct BatchMembers {
    /// The position of a body in the batch.
    private struct Body {
        var range: Range<Int>
        /// The contents of a body that is a string.
        var text: JSONReader.Span?
    }

    /// The index of the request in the batch.
    ///
    /// Messages contain the index instead of the request's contents.
    private let place: Int
    private var id: String?
    private var method: String?
    private var url: String?
    private(set) var group: String?
    private(set) var dependsOn: [String] = []
    private(set) var hasCondition = false
    private var headers = HTTPFields()
    private var body: Body?
    /// One bit for each member that was read.
    private var seen: UInt8 = 0

    private static let names = [
        "id", "method", "url", "atomicityGroup", "dependsOn", "headers", "body", "if",
    ]

    private static let methods: [(String, StaticString)] = [
        ("GET", "get"), ("POST", "post"), ("PATCH", "patch"), ("PUT", "put"), ("DELETE", "delete"),
    ]

    /// The names of the usual headers, which are compared before a name is copied.
    private static let usualHeaders = [
        "Repeatability-Request-ID", "Repeatability-First-Sent", "If-Match", "Content-Type",
    ]

    private static let headersMax = 100

    static let nameRule =
        "1 to 128 letters, digits and other visible ASCII characters are expected"

    init(place: Int) {
        self.place = place
    }

    func fault(_ member: String, _ text: String) -> ServerError {
        .badBatch("requests[\(place)].\(member)", text)
    }

    // MARK: - Reading

    mutating func read(_ reader: inout JSONReader) throws {
        guard case .object = try reader.value() else {
            throw ServerError.badBatch("requests[\(place)]", "an object is expected")
        }
        try reader.beginObject()
        while let name = try reader.nextMember() {
            let text = reader.text(name)
            if let known = Self.names.firstIndex(of: text) {
                let bit: UInt8 = 1 << UInt8(known)
                guard seen & bit == 0 else {
                    throw reader.failure("duplicate member name", at: name.range.lowerBound)
                }
                seen |= bit
            }
            try read(text, at: name.range.lowerBound, &reader)
        }
        if body != nil, headers["Content-Type"] == nil {
            headers.append("Content-Type", "application/json")
        }
    }

    private mutating func read(
        _ name: String,
        at position: Int,
        _ reader: inout JSONReader
    ) throws {
        switch name {
        case "id": id = try string(name, &reader)
        case "method": method = try string(name, &reader)
        case "url": url = try string(name, &reader)
        case "atomicityGroup": group = try string(name, &reader)
        case "dependsOn": try readDependencies(&reader)
        case "headers": try readHeaders(&reader)
        case "body": try readBody(&reader)
        case "if":
            hasCondition = true
            _ = try reader.rawValue()
        case _ where name.utf8.contains(0x40):
            _ = try reader.rawValue()
        default:
            throw ServerError.badBatch(
                "requests[\(place)]",
                "it has a member other than id, method, url, headers, body, "
                    + "atomicityGroup, dependsOn",
                position: position
            )
        }
    }

    /// Reads a string; nil for null.
    private func string(_ name: String, _ reader: inout JSONReader) throws -> String? {
        switch try reader.value() {
        case .string(let span): return reader.text(span)
        case .null: return nil
        case .bool, .number, .object, .array: throw fault(name, "a string is expected")
        }
    }

    private mutating func readDependencies(_ reader: inout JSONReader) throws {
        switch try reader.value() {
        case .null: return
        case .array: try reader.beginArray()
        case .bool, .number, .string, .object:
            throw fault("dependsOn", "an array of strings is expected")
        }
        while try reader.nextElement() {
            guard let name = try string("dependsOn", &reader) else {
                throw fault("dependsOn", "an array of strings is expected")
            }
            dependsOn.append(name)
        }
    }

    private mutating func readHeaders(_ reader: inout JSONReader) throws {
        switch try reader.value() {
        case .null: return
        case .object: try reader.beginObject()
        case .bool, .number, .string, .array:
            throw fault("headers", "an object of strings is expected")
        }
        headers.reserveCapacity(Self.usualHeaders.count)
        var count = 0
        while let span = try reader.nextMember() {
            count += 1
            guard count <= Self.headersMax else {
                throw fault("headers", "there are more than \(Self.headersMax)")
            }
            let name = Self.usualHeaders.first { reader.reads(span, $0) } ?? reader.text(span)
            guard Self.isToken(name) else {
                throw fault("headers", "a name is not a valid header name")
            }
            guard headers[name] == nil else { throw fault("headers", "a name occurs twice") }
            guard let value = try string("headers", &reader) else {
                throw fault("headers", "an object of strings is expected")
            }
            guard !value.utf8.contains(where: { $0 < 0x20 && $0 != 0x09 || $0 == 0x7F }) else {
                throw fault("headers", "a value has control characters")
            }
            headers.append(name, value)
        }
    }

    private mutating func readBody(_ reader: inout JSONReader) throws {
        let token = try reader.value()
        let start: Int
        var text: JSONReader.Span?
        switch token {
        case .null: return
        case .object, .array: start = reader.position
        case .number(let range): start = range.lowerBound
        case .bool(let value): start = reader.position - (value ? 4 : 5)
        case .string(let span):
            text = span
            start = span.range.lowerBound - 1
        }
        try reader.skip(token, checksNames: false)
        body = Body(range: start..<reader.position, text: text)
    }

    // MARK: - Rules of the members

    func id(_ bytesMax: Int) throws -> String {
        guard let id else { throw fault("id", "it is missing") }
        guard Self.isName(id, bytesMax: bytesMax) else { throw fault("id", Self.nameRule) }
        return id
    }

    func requestMethod() throws -> String {
        guard let method else { throw fault("method", "it is missing") }
        for (name, lower) in Self.methods where ASCII.equal(method, lower) { return name }
        throw fault("method", "one of get, post, patch, put, delete is expected")
    }

    func urlText() throws -> String {
        guard let url else { throw fault("url", "it is missing") }
        return url
    }

    /// Returns the headers without those of the batch as a whole.
    func requestHeaders(_ origin: BatchOrigin) throws -> HTTPFields {
        for name in ["Authorization", "X-ZUMO-AUTH"] where headers[name] != nil {
            throw fault("headers", "the token of the batch applies to all requests; leave it out")
        }
        var result = headers
        if let host = result["Host"] {
            guard origin.isOwn(host: host) else {
                throw fault("headers", "the host differs from that of the batch")
            }
            result["Host"] = nil
        }
        return result
    }

    /// Returns the bytes of the request's body as if it had been sent by itself.
    func requestBody(_ reader: JSONReader, _ method: String) throws -> [UInt8] {
        guard let body else { return [] }
        guard method != "GET" && method != "DELETE" else {
            throw fault("body", "GET and DELETE have no body")
        }
        let kind = BatchContent(type: headers["Content-Type"])
        if kind == .json { return Array(reader.bytes[body.range]) }
        guard let inside = body.text else {
            throw fault("body", "a string is expected, because its content-type is not JSON")
        }
        let text = reader.text(inside)
        if kind == .text { return Array(text.utf8) }
        guard let bytes = Base64URL.decode(Array(text.utf8)) else {
            throw fault(
                "body",
                "base64url is expected, because its content-type is not JSON or text"
            )
        }
        return bytes
    }

    /// Returns whether a string is a valid id of a request or a group.
    static func isName(_ text: String, bytesMax: Int) -> Bool {
        (1...bytesMax).contains(text.utf8.count)
            && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
    }

    private static func isToken(_ name: String) -> Bool {
        (1...256).contains(name.utf8.count)
            && name.utf8.allSatisfy(HTTPFields.isNameByte)
    }
}

/// The encoding of a body in a batch, by its media type.
enum BatchContent: Hashable, Sendable {
    /// As JSON, written directly.
    case json
    /// As a JSON string.
    case text
    /// As a JSON string with base64url.
    case binary

    /// Parses a media type, with a fast path for the usual one; the default is JSON.
    init(type: String?) {
        guard let type, !type.isEmpty else {
            self = .json
            return
        }
        if ASCII.equal(type, "application/json")
            || ASCII.equal(type, "application/json; charset=utf-8")
        {
            self = .json
            return
        }
        let media = type.prefix { $0 != ";" }.lowercased().filter { $0 != " " && $0 != "\t" }
        if media == "application/json" || media.hasSuffix("+json") {
            self = .json
        } else {
            self = media.hasPrefix("text/") ? .text : .binary
        }
    }
}
