// TableEndpoint: URLs of tables, rows and queries.
//
// The type builds URLs from strings, so that an id or a filter is percent-encoded only once, here.

import Foundation
import TidelineCore

/// The URLs of the tables of one server.
struct TableEndpoint: Sendable {
    private let root: String
    private let base: URL
    /// The normalized text of the server and path, which identifies the endpoint in stored cursors.
    let key: String
    /// The origin, for messages.
    let name: String

    init(_ endpoint: URL, allowsInsecure: Bool) throws {
        do {
            try EndpointRules.check(endpoint: endpoint, allowsInsecure: allowsInsecure)
        } catch {
            throw SyncError.badEndpoint(error)
        }
        var text = endpoint.absoluteString
        while text.hasSuffix("/") { text.removeLast() }
        root = text
        base = endpoint
        key = EndpointRules.normalized(endpoint)
        name = EndpointRules.name(of: endpoint)
    }

    /// Returns the URL of a table or a row; `query` is percent-encoded and begins with a question
    /// mark, or is empty.
    func url(_ table: String, id: String? = nil, query: String = "") throws -> URL {
        guard let url = URL(string: root + Self.path(table, id: id, query: query)) else {
            throw SyncError.badLink()
        }
        return url
    }

    /// Returns the path and query of a URL at the endpoint's origin, as a request in a batch
    /// contains them.
    func target(of url: URL) -> String {
        let text = url.absoluteString
        return Self.origin(text).map { String(text.dropFirst($0.count)) } ?? text
    }

    /// Returns whether a URL has the endpoint's origin.
    func isOrigin(of url: URL) -> Bool { EndpointRules.sameOrigin(url, base) }

    /// The path of the endpoint, without a trailing slash.
    var rootPath: String {
        Self.origin(root).map { String(root.dropFirst($0.count)) } ?? ""
    }

    /// The path of a table or a row below the endpoint.
    static func path(_ table: String, id: String?, query: String) -> String {
        var text = "/tables/" + encoded(table)
        if let id { text += "/" + encoded(id) }
        return text + query
    }

    /// The URL for batches.
    func batchURL() throws -> URL {
        guard let url = URL(string: root + "/$batch") else { throw SyncError.badLink() }
        return url
    }

    /// The URL of the schema document.
    func schemaURL() throws -> URL {
        guard let url = URL(string: root + "/$schema") else { throw SyncError.badLink() }
        return url
    }

    /// Returns the URL of a digest; `query` is percent-encoded and has no question mark.
    func url(digestOf table: String, query: String) throws -> URL {
        let text = root + "/tables/" + Self.encoded(table) + "/$digest"
        guard let url = URL(string: query.isEmpty ? text : text + "?" + query) else {
            throw SyncError.badLink()
        }
        return url
    }

    /// Returns the URL of the event stream that reports changes to tables.
    func events(of tables: [String]) throws -> URL {
        let names = tables.map(Self.encoded).joined(separator: ",")
        guard let url = URL(string: root + "/$events?tables=" + names) else {
            throw SyncError.badLink()
        }
        return url
    }

    /// Returns the URL of a next link, which is an absolute URL, a path with a query, or a bare
    /// query string.
    func url(following link: String, table: String) throws -> URL {
        let text: String
        if link.hasPrefix("http://") || link.hasPrefix("https://") {
            text = link
        } else if link.hasPrefix("/") {
            guard let origin = Self.origin(root) else { throw SyncError.badLink() }
            text = origin + link
        } else {
            let query = link.hasPrefix("?") ? String(link.dropFirst()) : link
            text = root + "/tables/" + Self.encoded(table) + "?" + query
        }
        guard let url = URL(string: text) else { throw SyncError.badLink() }
        // Tokens and ids are sent only to the endpoint's origin (docs/sync.md, Accounts).
        guard isOrigin(of: url) else { throw SyncError.linkToOtherOrigin() }
        return url
    }

    private static func origin(_ root: String) -> String? {
        guard let scheme = root.range(of: "://") else { return nil }
        guard let slash = root[scheme.upperBound...].firstIndex(of: "/") else { return root }
        return String(root[..<slash])
    }

    static func encoded(_ segment: String) -> String {
        var result = ""
        for byte in segment.utf8 {
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "-"), UInt8(ascii: "."),
                UInt8(ascii: "_"), UInt8(ascii: "~"):
                result.unicodeScalars.append(Unicode.Scalar(byte))
            default:
                let digits = String(byte, radix: 16, uppercase: true)
                result += byte < 16 ? "%0" + digits : "%" + digits
            }
        }
        return result
    }
}
