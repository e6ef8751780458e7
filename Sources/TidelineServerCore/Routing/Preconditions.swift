// Preconditions: If-Match and its kin (RFC 9110 section 13), decided as a pure value.

/// The conditions of a request on one row.
package struct Preconditions: Hashable, Sendable {
    /// The fields as sent.
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
        /// `*`
        case any
        case list([Tag])

        /// Compares as If-Match does: weak tags never match.
        func matchesStrongly(_ version: Int64) -> Bool {
            switch self {
            case .any: true
            case .list(let tags): tags.contains(Tag(text: RowVersion.text(version)))
            }
        }

        /// Compares as If-None-Match does: `W/"x"` matches `"x"`.
        func matchesWeakly(_ version: Int64) -> Bool {
            switch self {
            case .any: return true
            case .list(let tags):
                let text = RowVersion.text(version)
                return tags.contains { $0.text == text }
            }
        }
    }

    /// One tag of a list.
    package struct Tag: Hashable, Sendable {
        package var text: String
        package var isWeak = false
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

    /// Reads the fields; a malformed list of tags is 400, a malformed date is ignored.
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
            guard ifMatch.matchesStrongly(version) else { return .failed }
        } else if let ifUnmodifiedSince, seconds > ifUnmodifiedSince {
            return .failed
        }
        if let ifNoneMatch {
            if ifNoneMatch.matchesWeakly(version) { return isRead ? .notModified : .failed }
        } else if let ifModifiedSince, seconds <= ifModifiedSince {
            return isRead ? .notModified : .failed
        }
        return .holds
    }

    /// `*`, or a list of `"tag"` and `W/"tag"`; one tag without quotes is taken as strong, as the
    /// classic server did.
    private static func tags(_ text: String, of field: String) throws -> Tags {
        let bytes = Array(text.utf8)
        if bytes == [UInt8(ascii: "*")] { return .any }
        var scanner = TagScanner(bytes: bytes)
        guard let tags = scanner.list() else {
            throw ServerError.badRequest(
                "\(field) must be '*' or a list of entity tags in double quotes."
            )
        }
        return .list(tags)
    }
}

/// Reads a list of entity tags.
private struct TagScanner {
    let bytes: [UInt8]
    var index = 0

    /// The tags, or nil when the list is malformed or empty.
    mutating func list() -> [Preconditions.Tag]? {
        var tags: [Preconditions.Tag] = []
        while true {
            skip { $0 == 0x20 || $0 == 0x09 || $0 == UInt8(ascii: ",") }
            guard index < bytes.count else { return tags.isEmpty ? nil : tags }
            if bytes[index...].starts(with: "W/\"".utf8) {
                index += 2
                guard let tag = quoted() else { return nil }
                tags.append(Preconditions.Tag(text: tag, isWeak: true))
            } else if bytes[index] == UInt8(ascii: "\"") {
                guard let tag = quoted() else { return nil }
                tags.append(Preconditions.Tag(text: tag))
            } else {
                guard tags.isEmpty, let tag = bare() else { return nil }
                tags.append(Preconditions.Tag(text: tag))
            }
            skip { $0 == 0x20 || $0 == 0x09 }
            guard index == bytes.count || bytes[index] == UInt8(ascii: ",") else { return nil }
        }
    }

    private mutating func skip(while isSkipped: (UInt8) -> Bool) {
        while index < bytes.count, isSkipped(bytes[index]) { index += 1 }
    }

    private mutating func quoted() -> String? {
        let start = index + 1
        guard let end = bytes[start...].firstIndex(of: UInt8(ascii: "\"")) else { return nil }
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
