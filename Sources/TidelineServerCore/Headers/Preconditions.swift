// Preconditions: If-Match and the other conditional headers (RFC 9110 section 13), evaluated as a pure value.

import TidelineCore

/// The conditions of a request on one row.
package struct Preconditions: Hashable, Sendable {
    /// The header fields as they were sent.
    package struct Fields: Hashable, Sendable {
        package var ifMatch: String?
        package var ifNoneMatch: String?
        package var ifUnmodifiedSince: String?
        package var ifModifiedSince: String?

        package init() {}

        var isEmpty: Bool {
            ifMatch == nil && ifNoneMatch == nil && ifUnmodifiedSince == nil
                && ifModifiedSince == nil
        }
    }

    package enum Tags: Hashable, Sendable {
        /// The value `*`.
        case any
        /// The strong tags of a list. Weak tags never match and are omitted.
        case strong([String])

        func matches(_ version: Int64) -> Bool {
            switch self {
            case .any: true
            case .strong(let tags): tags.contains(RowVersion.text(version))
            }
        }
    }

    package enum Result: Hashable, Sendable {
        case holds
        case failed
        case notModified
    }

    package var ifMatch: Tags?
    package var ifNoneMatch: Tags?
    /// Seconds since 1970.
    package var ifUnmodifiedSince: Int64?
    /// Seconds since 1970.
    package var ifModifiedSince: Int64?

    /// No conditions.
    package static let none = Preconditions()

    package init() {}

    /// Parses the fields.
    ///
    /// A malformed list of tags is rejected with 400; a malformed date is ignored.
    package init(_ fields: Fields) throws {
        if fields.isEmpty { return }
        ifMatch = try fields.ifMatch.map { try Self.tags($0, of: "If-Match") }
        ifNoneMatch = try fields.ifNoneMatch.map { try Self.tags($0, of: "If-None-Match") }
        ifUnmodifiedSince = fields.ifUnmodifiedSince.flatMap(HTTPDate.seconds)
        ifModifiedSince = fields.ifModifiedSince.flatMap(HTTPDate.seconds)
    }

    /// Evaluates the conditions against a stored row, in the order of RFC 9110 section 13.2.2.
    package func evaluate(version: Int64, updatedAt: Int64, isRead: Bool) -> Result {
        let seconds = HTTPDate.wholeSeconds(microseconds: updatedAt)
        if let ifMatch {
            guard ifMatch.matches(version) else { return .failed }
        } else if let ifUnmodifiedSince, seconds > ifUnmodifiedSince {
            return .failed
        }
        if let ifNoneMatch {
            if ifNoneMatch.matches(version) { return isRead ? .notModified : .failed }
        } else if let ifModifiedSince, seconds <= ifModifiedSince {
            return isRead ? .notModified : .failed
        }
        return .holds
    }

    /// Parses `*`, or a list of `"tag"` and `W/"tag"`.
    ///
    /// A single tag without quotes is treated as strong, as in the classic server.
    private static func tags(_ text: String, of field: String) throws -> Tags {
        let bytes = Array(text.utf8)
        if bytes == [UInt8(ascii: "*")] { return .any }
        var scanner = TagScanner(bytes: bytes)
        guard let tags = scanner.list() else {
            throw ServerError.badRequest(
                "\(field) must be '*' or a list of entity tags in double quotes."
            )
        }
        return .strong(tags)
    }
}

/// A scanner for a list of entity tags.
private struct TagScanner {
    let bytes: [UInt8]
    var index = 0

    /// Returns the strong tags, or nil if the list is malformed or empty.
    mutating func list() -> [String]? {
        var tags: [String] = []
        var count = 0
        while true {
            skip { $0 == 0x20 || $0 == 0x09 || $0 == UInt8(ascii: ",") }
            guard index < bytes.count else { return count > 0 ? tags : nil }
            count += 1
            if bytes[index...].starts(with: "W/\"".utf8) {
                index += 2
                guard quoted() != nil else { return nil }
            } else if bytes[index] == UInt8(ascii: "\"") {
                guard let tag = quoted() else { return nil }
                tags.append(tag)
            } else {
                guard count == 1, let tag = bare() else { return nil }
                tags.append(tag)
            }
            skip { $0 == 0x20 || $0 == 0x09 }
            guard index == bytes.count || bytes[index] == UInt8(ascii: ",") else { return nil }
        }
    }

    private mutating func skip(while isSkipped: (UInt8) -> Bool) {
        while index < bytes.count, isSkipped(bytes[index]) { index += 1 }
    }

    /// Reads a quoted tag.
    ///
    /// Some clients escape a quote inside with a backslash (classic-protocol.md 1.4).
    ///
    /// A tag may also end in a backslash; then a comma or the end of the list follows.
    private mutating func quoted() -> String? {
        let start = index + 1
        var escaped: Int?
        var end = start
        while end < bytes.count, escaped == nil || bytes[end] != UInt8(ascii: ",") {
            if bytes[end] == UInt8(ascii: "\"") {
                guard end > start, bytes[end - 1] == UInt8(ascii: "\\") else { break }
                escaped = escaped ?? end
            }
            end += 1
        }
        if end == bytes.count || bytes[end] != UInt8(ascii: "\"") {
            guard let escaped else { return nil }
            end = escaped
        }
        index = end + 1
        return String(decoding: bytes[start..<end], as: UTF8.self)
    }

    private mutating func bare() -> String? {
        guard !bytes[index...].starts(with: "W/".utf8),
            bytes[index...].allSatisfy({ $0 > 0x20 && $0 != 0x22 && $0 != 0x2C })
        else { return nil }
        defer { index = bytes.count }
        return String(decoding: bytes[index...], as: UTF8.self)
    }
}
