// CrossOrigin: CORS, as in the Fetch standard.
//
// A page has to set the token header itself, and cookies are never used. So an allowed page can do no more than its
// user's token allows, and the server never announces support for credentials.

import TidelineCore

/// An origin as it is written in the configuration.
package struct OriginPattern: Hashable, Sendable {
    private let scheme: String
    /// The host; a leading `.` matches all names below it.
    private let host: String
    /// The port; nil for any.
    private let port: String?
    private let isAny: Bool

    /// Parses a pattern; nil if it is neither `*` nor `scheme://host[:port]`.
    ///
    /// The host may begin with `*.`, and the port may be `*`.
    package init?(_ text: String) {
        isAny = text == "*"
        if isAny {
            (scheme, host, port) = ("", "", nil)
            return
        }
        guard let parts = Self.parts(text.lowercased()) else { return nil }
        let name = parts.host.hasPrefix("*.") ? parts.host.dropFirst(2) : parts.host[...]
        guard Self.isHost(name), parts.port == "*" || parts.port.utf8.allSatisfy(Self.isDigit),
            parts.scheme.utf8.allSatisfy({ Self.isLetter($0) || Self.isDigit($0) || $0 == 0x2D })
        else { return nil }
        scheme = parts.scheme
        host = name.count < parts.host.count ? "." + name : parts.host
        port = parts.port == "*" ? nil : parts.port
    }

    /// Whether the pattern matches the origin that a browser sent.
    package func matches(_ origin: String) -> Bool {
        if isAny { return true }
        guard let parts = Self.parts(origin.lowercased()), parts.scheme == scheme,
            port == parts.port || port == nil && parts.port.utf8.allSatisfy(Self.isDigit),
            Self.isHost(parts.host[...])
        else { return false }
        guard host.utf8.first == UInt8(ascii: ".") else { return parts.host == host }
        return parts.host.hasSuffix(host) && parts.host.utf8.count > host.utf8.count
    }

    /// Returns the parts of an origin.
    ///
    /// The default port of a scheme is omitted, as in browsers.
    private static func parts(_ text: String) -> (scheme: String, host: String, port: String)? {
        guard text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }),
            let colon = text.firstRange(of: "://"), colon.lowerBound > text.startIndex
        else { return nil }
        let scheme = String(text[..<colon.lowerBound])
        let rest = text[colon.upperBound...]
        var host = rest
        var port = ""
        if let end = rest.lastIndex(of: ":"), !rest[end...].contains("]") {
            host = rest[..<end]
            port = String(rest[rest.index(after: end)...])
            guard !port.isEmpty else { return nil }
        }
        if (scheme, port) == ("http", "80") || (scheme, port) == ("https", "443") { port = "" }
        return host.isEmpty ? nil : (scheme, String(host), port)
    }

    private static func isHost(_ name: Substring) -> Bool {
        if name.hasPrefix("["), name.hasSuffix("]") {
            return name.dropFirst().dropLast().utf8.allSatisfy {
                isDigit($0) || $0 == UInt8(ascii: ":") || (0x61...0x66).contains($0)
            }
        }
        return !name.isEmpty && name.utf8.first != UInt8(ascii: ".")
            && name.utf8.allSatisfy {
                isLetter($0) || isDigit($0) || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: ".")
                    || $0 == UInt8(ascii: "_")
            }
    }

    private static func isLetter(_ byte: UInt8) -> Bool { (0x61...0x7A).contains(byte) }

    private static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }
}

/// The rules for which web pages may call the server from a browser (CORS).
package struct CrossOrigin: Sendable {
    private let origins: [OriginPattern]

    package init(_ origins: [OriginPattern]) {
        self.origins = origins
    }

    private static let methods = "GET, HEAD, PUT, PATCH, POST, DELETE, OPTIONS"

    /// The headers that a page may send if its browser does not ask for specific ones.
    private static let requestHeaders =
        "Authorization, Content-Type, If-Match, If-Modified-Since, If-None-Match, "
        + "If-Unmodified-Since, Prefer, Repeatability-First-Sent, Repeatability-Request-ID, "
        + "X-Request-ID, X-ZUMO-AUTH, X-ZUMO-FEATURES, X-ZUMO-INSTALLATION-ID, X-ZUMO-Options, "
        + "X-ZUMO-VERSION, ZUMO-API-VERSION"

    /// The response headers that a page may read in addition to the body.
    private static let exposedHeaders =
        "Allow, ETag, Last-Modified, Link, Location, Preference-Applied, Repeatability-Result, "
        + "Retry-After, Tideline-Conflict, Tideline-Epoch, Tideline-Horizon, Tideline-Schema, "
        + "Tideline-Tombstone, WWW-Authenticate, X-Request-ID"

    /// The number of seconds for which a browser caches a preflight response.
    private static let maxAge = "300"

    /// The maximum number of bytes of an origin, and of the names that a preflight asks for.
    private static let originBytesMax = 300
    private static let namesBytesMax = 500

    /// Adds the headers that let a page of the request's origin read the answer; none for other origins.
    func addHeaders(to response: inout ServerResponse, for request: ServerRequest) {
        response.headers.append("Vary", "Origin")
        guard let origin = request.headers["Origin"],
            origin.utf8.count <= Self.originBytesMax,
            origin.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }),
            origins.contains(where: { $0.matches(origin) })
        else { return }
        response.headers.append("Access-Control-Allow-Origin", origin)
        response.headers.append("Access-Control-Expose-Headers", Self.exposedHeaders)
        guard request.isPreflight else { return }
        response.headers.append("Access-Control-Allow-Methods", Self.methods)
        response.headers.append("Access-Control-Allow-Headers", Self.allowedHeaders(request))
        response.headers.append("Access-Control-Max-Age", Self.maxAge)
    }

    /// Whether a web page of the request's origin may call the server.
    func allows(_ origin: String) -> Bool {
        origin.utf8.count <= Self.originBytesMax && origins.contains { $0.matches(origin) }
    }

    /// Returns the header names that the preflight asks for, as the classic server did.
    ///
    /// Allowing any name is harmless.
    private static func allowedHeaders(_ request: ServerRequest) -> String {
        guard let names = request.headers["Access-Control-Request-Headers"], !names.isEmpty,
            names.utf8.count <= namesBytesMax, names.utf8.allSatisfy(isNameByte)
        else { return requestHeaders }
        return names
    }

    private static func isNameByte(_ byte: UInt8) -> Bool {
        switch ASCII.lower(byte) {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
            UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: ","), UInt8(ascii: " "):
            true
        default: false
        }
    }
}

/// A check that rejects writes that a web page of another site makes its browser send.
///
/// A browser sends a preflight, which ``CrossOrigin`` answers, for requests that an HTML form cannot make. It
/// sends a form's requests without a preflight, and such a request can write if the server does not require a
/// token. Therefore, a page may write only if it comes from this server or from an origin in `cors.origins`.
enum CrossSite {
    private static let reads: Set<String> = ["GET", "HEAD", "OPTIONS"]

    /// - Throws: ``ServerError`` with status 403.
    static func check(
        _ request: ServerRequest,
        _ crossOrigin: CrossOrigin?,
        publicURL: String?
    ) throws(ServerError) {
        guard !reads.contains(request.method) else { return }
        let site = request.headers["Sec-Fetch-Site"]
        guard let origin = request.headers["Origin"] else {
            // Only browsers send this header, and current ones send `Origin` with each write.
            guard site == nil || site == "same-origin" || site == "none" else {
                throw ServerError.crossSite
            }
            return
        }
        if site == "same-origin" || crossOrigin?.allows(origin) == true { return }
        guard site == nil || site == "none", let authority = authority(of: origin) else {
            throw ServerError.crossSite
        }
        let own = [request.headers["Host"], publicURL.flatMap { Self.authority(of: $0) }]
        guard own.contains(where: { $0?.lowercased() == authority }) else {
            throw ServerError.crossSite
        }
    }

    /// Returns the host and port of an origin or an address; nil for `null`.
    private static func authority(of text: String) -> String? {
        guard let end = text.firstRange(of: "://")?.upperBound else { return nil }
        return text[end...].prefix { $0 != "/" }.lowercased()
    }
}

extension ServerError {
    static let crossSite = ServerError(
        403,
        "A web page of another site cannot write here. To allow it, add its origin to cors.origins.",
        code: .crossSite
    )

    /// Returns the error for a row that violates a constraint of the operator's own tables or triggers.
    ///
    /// `place` contains columns or the name of the constraint, never values.
    package static func constraint(_ code: ErrorCode, _ place: String) -> ServerError {
        ServerError(
            400,
            constraintBroken.message + (place.isEmpty ? "" : " The constraint concerns: \(place)."),
            code: code
        )
    }

    /// Whether one of the operator's constraints rejected a row.
    var isConstraint: Bool { code?.isConstraint == true }
}

extension ServerRequest {
    /// Whether the request is a browser's preflight.
    var isPreflight: Bool {
        method == "OPTIONS" && headers["Origin"] != nil
            && headers["Access-Control-Request-Method"] != nil
    }
}
