// PostgresAddress: the URL of a database, with its user; the description is safe to show.

import CLibPQ

/// An address such as `postgres://user:password@host:port/database?option=value`, possibly with several hosts.
///
/// Its description has no user and no password.
package struct PostgresAddress: Hashable, Sendable, CustomStringConvertible {
    /// The URL as it was given, with the password.
    let url: String
    /// Host and database.
    package let description: String
    /// The accepted kinds of hosts (`target_session_attrs`); nil if the address does not specify them.
    package let sessionAttributes: String?

    /// Whether a host must accept writes, unless the address specifies something else.
    let isForWrites: Bool

    /// - Throws: ``PostgresError`` for a URL that libpq cannot parse, or might parse in an unintended way; the error
    ///   does not quote it.
    package init(_ url: String, isForWrites: Bool = true) throws {
        var message: UnsafeMutablePointer<CChar>?
        guard !Self.mayHoldPassword(url), let options = PQconninfoParse(url, &message) else {
            // The message may quote the text with its password.
            if let message { PQfreemem(message) }
            throw Self.unreadable
        }
        defer { PQconninfoFree(options) }
        var values: [String: String] = [:]
        var option = options
        while let keyword = option.pointee.keyword {
            if let value = option.pointee.val {
                values[String(cString: keyword)] = String(cString: value)
            }
            option += 1
        }
        guard (values["port"] ?? "").utf8.allSatisfy({ $0 == 0x2C || 0x30...0x39 ~= $0 }) else {
            throw Self.unreadable
        }
        self.url = url
        self.isForWrites = isForWrites
        sessionAttributes = values["target_session_attrs"]
        let host = values["host"] ?? values["hostaddr"] ?? ""
        let port = values["port"].map { ":\($0)" } ?? ""
        let database = values["dbname"] ?? ""
        description =
            host.hasPrefix("/") || host.isEmpty
            ? "postgres:///\(database)" : "postgres://\(host)\(port)/\(database)"
    }

    private static let unreadable = PostgresError(
        state: "",
        "The address of the database is not valid. Write it as "
            + "postgres://USER:PASSWORD@HOST:PORT/DATABASE, with '@' and '/' in the password as %40 and %2F."
    )

    /// Returns whether libpq might treat a part of the password as host, port or database.
    ///
    /// User and password end at the first '@' before a '/', so a second '@' indicates a password that is not
    /// encoded.
    private static func mayHoldPassword(_ url: String) -> Bool {
        let bytes = Array(url.utf8)
        guard let start = bytes.firstRange(of: Array("://".utf8))?.upperBound else { return false }
        var rest = bytes[start...]
        let (at, slash, mark) = (UInt8(ascii: "@"), UInt8(ascii: "/"), UInt8(ascii: "?"))
        if let end = rest.firstIndex(where: { $0 == at || $0 == slash }), rest[end] == at {
            rest = rest[(end + 1)...]
        }
        return rest.prefix { $0 != mark }.contains(at)
    }
}
