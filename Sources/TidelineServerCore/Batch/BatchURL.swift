// BatchURL: the parsed `url` of a request in a batch, which names a target on this server.
//
// No request is ever forwarded to another server: an address that does not begin with one of this server's own names
// is rejected.

import TidelineCore

/// The names by which the caller of a batch knows the server.
package struct BatchOrigin: Sendable {
    /// The `Host` of the batch.
    private let host: String?
    /// The server's address as callers use it, without a trailing slash.
    private let publicURL: String?

    package init(host: String?, publicURL: String?) {
        self.host = host?.lowercased()
        self.publicURL = publicURL
    }

    /// Whether a `Host` header of a request within a batch names this server.
    func isOwn(host: String) -> Bool { host.lowercased() == self.host }

    /// Returns the path and query of `http://authority/path?query` on this server; nil for another origin.
    fileprivate func local(_ url: String) -> Substring? {
        if let publicURL, let rest = Self.rest(of: url, behind: publicURL) { return rest }
        guard let host else { return nil }
        for (scheme, port) in [("http", ":80"), ("https", ":443")] {
            let name = host.hasSuffix(port) ? String(host.dropLast(port.utf8.count)) : host
            for authority in [name, name + port, host] {
                if let rest = Self.rest(of: url, behind: scheme + "://" + authority) { return rest }
            }
        }
        return nil
    }

    /// Returns the rest of an address that begins with the origin; nil for other addresses.
    private static func rest(of url: String, behind origin: String) -> Substring? {
        let length = origin.utf8.count
        guard url.utf8.count >= length,
            zip(url.utf8, origin.utf8).allSatisfy({ ASCII.lower($0) == ASCII.lower($1) })
        else { return nil }
        let rest = url.utf8.dropFirst(length)
        guard rest.isEmpty || rest.first == UInt8(ascii: "/") || rest.first == UInt8(ascii: "?")
        else { return nil }
        return Substring(rest)
    }
}

/// A parsed `url` of a request in a batch.
package enum BatchURL: Hashable, Sendable {
    case path(String, query: String)
    /// `$id`, with the rest of the path.
    case reference(String, rest: String, query: String)

    /// The reason why a `url` is rejected, as the end of a sentence.
    package enum Fault: String, Error, Hashable, Sendable {
        case empty = "it is empty"
        case characters = "it has control characters or a '#'"
        case foreign = "it is not an address of this server"
    }

    /// The first path segments that are names of resources, not of earlier requests (OData 4.01).
    private static let systemResources: Set<String> = [
        "batch", "crossjoin", "all", "entity", "root", "id", "metadata", "events",
    ]

    package init(_ url: String, origin: BatchOrigin) throws(Fault) {
        guard let first = url.utf8.first else { throw .empty }
        if url.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F || $0 == UInt8(ascii: "#") }) {
            throw .characters
        }
        var local = Substring(url)
        if url.utf8.starts(with: "//".utf8) { throw .foreign }
        if first == UInt8(ascii: "$") {
            // This comes before the check for a scheme, because an id may contain a colon; no scheme begins with '$'.
            if let reference = Self.reference(local) {
                self = reference
                return
            }
        } else if first != UInt8(ascii: "/"), Self.hasScheme(url) {
            guard let rest = origin.local(url) else { throw .foreign }
            local = rest
        }
        let (path, query) = Self.split(local)
        let isWhole = path.utf8.first == UInt8(ascii: "/")
        self = .path(isWhole ? String(path) : "/" + path, query: String(query))
    }

    /// Returns whether an address begins with a scheme and a colon (RFC 3986 section 4.2).
    private static func hasScheme(_ url: String) -> Bool {
        let end = url.utf8.firstIndex { byte in
            switch byte {
            case UInt8(ascii: ":"), UInt8(ascii: "/"), UInt8(ascii: "?"): true
            default: false
            }
        }
        return end.map { url.utf8[$0] == UInt8(ascii: ":") } ?? false
    }

    private static func split(_ text: Substring) -> (path: Substring, query: Substring) {
        guard let mark = text.utf8.firstIndex(of: UInt8(ascii: "?")) else { return (text, "") }
        return (text[..<mark], Substring(text.utf8[mark...].dropFirst()))
    }

    /// Parses a reference; nil if the first segment is another name.
    private static func reference(_ url: Substring) -> BatchURL? {
        let (path, query) = split(url)
        let end = path.utf8.firstIndex(of: UInt8(ascii: "/")) ?? path.endIndex
        let name = String(path.utf8[..<end].dropFirst()) ?? ""
        if systemResources.contains(name.lowercased()) { return nil }
        return .reference(name, rest: String(path[end...]), query: String(query))
    }
}
