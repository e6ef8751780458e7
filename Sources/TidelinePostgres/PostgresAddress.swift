// PostgresAddress: where a database is and who asks; what of it may be told to anybody.

import CLibPQ

/// `postgres://user:password@host:port/database?option=value`, or several hosts.
///
/// Its description has no user and no password.
package struct PostgresAddress: Hashable, Sendable, CustomStringConvertible {
    /// As it was given, with the password.
    let url: String
    /// Host and database.
    package let description: String

    /// - Throws: ``PostgresError`` for what libpq cannot read; without the text.
    package init(_ url: String) throws {
        var message: UnsafeMutablePointer<CChar>?
        guard let options = PQconninfoParse(url, &message) else {
            // The message may quote the text with its password.
            if let message { PQfreemem(message) }
            throw PostgresError(
                state: "",
                "The address of the database cannot be read. "
                    + "Write it as postgres://USER:PASSWORD@HOST:PORT/DATABASE."
            )
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
        self.url = url
        let host = values["host"] ?? values["hostaddr"] ?? ""
        let port = values["port"].map { ":\($0)" } ?? ""
        let database = values["dbname"] ?? ""
        description =
            host.hasPrefix("/") || host.isEmpty
            ? "postgres:///\(database)" : "postgres://\(host)\(port)/\(database)"
    }
}
