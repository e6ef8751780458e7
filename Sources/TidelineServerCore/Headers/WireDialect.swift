// WireDialect: the generation of clients that a request comes from, and the options in its headers.

package import TidelineCore

/// The generation of a caller.
package enum Generation: Hashable, Sendable {
    /// Azure Mobile Apps 2.x: bare arrays, `Link`, 404 for tombstones.
    case classic
    /// Datasync: envelope, `nextLink`, 410 for tombstones.
    case datasync

    /// Returns the generation of a `ZUMO-API-VERSION` value: `2.n`, `2.n.n`, `3.n`, `3.n.n`.
    package init?(version: String) {
        // The values that clients usually send are recognized without parsing.
        switch version {
        case "2.0.0":
            self = .classic
            return
        case "3.0.0":
            self = .datasync
            return
        default: break
        }
        let parts = version.utf8.split(
            separator: UInt8(ascii: "."),
            omittingEmptySubsequences: false
        )
        guard parts.count == 2 || parts.count == 3,
            parts.allSatisfy({ part in
                !part.isEmpty && part.count <= 16 && part.allSatisfy { $0 >= 0x30 && $0 <= 0x39 }
            })
        else { return nil }
        switch Substring(parts[0]) {
        case "2": self = .classic
        case "3": self = .datasync
        default: return nil
        }
    }
}

/// The header fields that a table request uses, found in one pass.
package struct RequestHead: Sendable {
    package var version: String?
    package var options = ""
    package var contentType: String?
    /// The content codings of the body, as they were sent.
    private var contentEncoding: String?
    package var host: String?
    package var preferences = Preferences()
    package var conditions = Preconditions.Fields()
    package var repeatability = RepeatKey.Fields()

    package init(_ headers: HTTPFields) {
        for field in headers {
            switch field.name.utf8.count {
            case 4 where ASCII.equal(field.name, "host"): host = field.value
            case 6 where ASCII.equal(field.name, "prefer"): preferences.read(field.value)
            case 8 where ASCII.equal(field.name, "if-match"):
                Self.join(&conditions.ifMatch, field.value)
            case 12 where ASCII.equal(field.name, "content-type"): contentType = field.value
            case 13 where ASCII.equal(field.name, "if-none-match"):
                Self.join(&conditions.ifNoneMatch, field.value)
            case 14 where ASCII.equal(field.name, "x-zumo-options"):
                options = options.isEmpty ? field.value : options + "," + field.value
            case 16 where ASCII.equal(field.name, "zumo-api-version"): version = field.value
            case 16 where ASCII.equal(field.name, "content-encoding"):
                Self.join(&contentEncoding, field.value)
            case 17 where ASCII.equal(field.name, "if-modified-since"):
                conditions.ifModifiedSince = field.value
            case 19 where ASCII.equal(field.name, "if-unmodified-since"):
                conditions.ifUnmodifiedSince = field.value
            case 24 where ASCII.equal(field.name, "repeatability-request-id"):
                Self.join(&repeatability.requestID, field.value)
            case 24 where ASCII.equal(field.name, "repeatability-first-sent"):
                Self.join(&repeatability.firstSent, field.value)
            default: break
            }
        }
    }

    private static func join(_ list: inout String?, _ value: String) {
        list = list.map { $0 + ", " + value } ?? value
    }

    /// Returns the generation from the parameter, or else from the header; datasync if both are absent.
    package func generation(_ parameters: QueryParameters) throws -> Generation {
        guard let text = parameters.values("zumo-api-version").first ?? version else {
            return .datasync
        }
        guard let generation = Generation(version: text) else {
            throw ServerError.badRequest(
                "ZUMO-API-VERSION must be 2.x, 2.x.y, 3.x or 3.x.y, or must be left out."
            )
        }
        return generation
    }

    /// Whether `X-ZUMO-Options: nextLink=path` was sent.
    package var asksForPathLinks: Bool {
        !options.isEmpty && options.lowercased().contains("nextlink=path")
    }

    /// Whether `X-ZUMO-Options: include:deleted` was sent.
    package var includesDeleted: Bool {
        !options.isEmpty
            && options.split(separator: ",").contains { part in
                ASCII.equal(part.filter { $0 != " " }, "include:deleted")
            }
    }

    /// Whether the body has a content coding, such as gzip.
    var isCoded: Bool { contentEncoding != nil && !codings.isEmpty }

    /// Whether the body is one gzip member without another coding.
    var isGzip: Bool {
        let codings = codings
        guard codings.count == 1, let coding = codings.first else { return false }
        return ASCII.equal(coding, "gzip") || ASCII.equal(coding, "x-gzip")
    }

    /// The codings of the body, except for `identity`.
    private var codings: [String] {
        (contentEncoding ?? "").split(separator: ",")
            .map { $0.filter { $0 != " " && $0 != "\t" } }
            .filter { !$0.isEmpty && !ASCII.equal($0, "identity") }
    }

    /// The declared type of a body.
    package enum BodyType: Hashable, Sendable {
        /// JSON in UTF-8.
        case json
        /// A JSON Patch (RFC 6902).
        case patch
        case other
    }

    /// The declared type of the body; nil if none is declared.
    package var bodyType: BodyType? {
        guard let contentType, !contentType.isEmpty else { return nil }
        if ASCII.equal(contentType, "application/json") { return .json }
        let parts = contentType.lowercased().split(separator: ";").map { part in
            part.filter { $0 != " " && $0 != "\t" && $0 != "\"" }
        }
        let isUTF8 = parts.dropFirst().allSatisfy {
            !$0.hasPrefix("charset=") || $0 == "charset=utf-8" || $0 == "charset=utf8"
        }
        switch parts.first {
        case "application/json" where isUTF8, "application/merge-patch+json" where isUTF8:
            return .json
        case "application/json-patch+json" where isUTF8: return .patch
        default: return .other
        }
    }
}
