// ServerConfiguration: all settings of a server, given in code or in one JSON file.

import Foundation
public import TidelineHTTP
public import TidelineServerCore

/// The configuration of a server.
///
/// ```swift
/// var configuration = ServerConfiguration()
/// configuration.database = .sqlite(path: "todo.db")
/// configuration.tables = [
///     TableDefinition("TodoItem", columns: [
///         ColumnDefinition("text", .string), ColumnDefinition("complete", .boolean),
///     ])
/// ]
/// ```
public struct ServerConfiguration: Sendable {
    /// The database of the tables.
    public enum Database: Hashable, Sendable {
        /// A file, created if it does not exist.
        case sqlite(path: String)
        /// The memory of the process; its contents are lost when the process ends.
        case memory
        /// A PostgreSQL database, `postgres://user:password@host:port/database`, which several servers may share.
        case postgres(url: String)
    }

    /// The log on standard error.
    public struct Log: Hashable, Sendable {
        /// The severity of a line.
        public enum Level: String, Hashable, Sendable, CaseIterable {
            /// The server failed.
            case error
            /// A condition that an operator should check.
            case warning
            /// Starting and stopping.
            case info
            /// Normal work.
            case debug
        }

        /// The format of a line.
        public enum Format: String, Hashable, Sendable, CaseIterable {
            /// Text, for people.
            case text
            /// One JSON object per line, for log collectors.
            case json
        }

        /// The minimum severity of the lines that are written.
        public var level = Level.info
        /// The format of a line.
        public var format = Format.text
        /// The severity of a request's line.
        public var requests = Level.debug
        /// The duration from which a request is logged on its own line, as a warning.
        public var slow: Duration = .seconds(1)
    }

    /// The certificate and key of a server that speaks TLS.
    public struct TLS: Hashable, Sendable {
        /// A PEM file with the server's certificate, followed by the intermediate certificates.
        public var certificateFile: String
        /// A file with the certificate's private key in PEM, without a passphrase.
        public var keyFile: String

        /// Creates a TLS configuration.
        ///
        /// The files are read at the start, and by ``TidelineServer/reload(_:)``.
        public init(certificateFile: String, keyFile: String) {
            self.certificateFile = certificateFile
            self.keyFile = keyFile
        }
    }

    /// The web pages that may call the server from a browser.
    public struct CORS: Hashable, Sendable {
        /// Origins such as `https://app.example`, `https://*.example`, `http://localhost:*`, or `*`.
        public var origins: [String] = []
    }

    /// The proxies that are trusted to report the client's address.
    public struct Proxies: Hashable, Sendable {
        /// The header field with the client's address.
        public enum Header: String, Hashable, Sendable, CaseIterable {
            /// Addresses that are separated by commas.
            case xForwardedFor = "X-Forwarded-For"
            /// The field of RFC 7239.
            case forwarded = "Forwarded"
        }

        /// Addresses such as `127.0.0.1`, and networks such as `10.0.0.0/8`; none by default.
        public var trusted: [String] = []
        /// The field that these proxies write.
        ///
        /// Other fields are ignored, because a caller may have written them.
        public var header = Header.xForwardedFor
    }

    /// The page for operators at `/`.
    public struct Dashboard: Hashable, Sendable {
        /// The mode of the page.
        public enum Mode: String, Hashable, Sendable, CaseIterable {
            /// Rows can be read and changed.
            case readWrite
            /// Rows can be read but not changed.
            case readOnly
            /// The page is not served.
            case off
        }

        /// The mode of the page.
        public var mode = Mode.readWrite
        /// The maximum number of devices that the server remembers, in memory.
        public var devices = 1000
        /// The maximum number of slow requests that the server remembers, in memory.
        public var slowRequests = 100
        /// The duration from which a request counts as slow.
        public var slowTime: Duration = .milliseconds(250)
    }

    /// The access to `/metrics`.
    public struct Metrics: Hashable, Sendable {
        /// A file with a key that the scraper sends as a bearer token.
        ///
        /// The key has 16 to 4,096 ASCII characters without white space. If it is set, only callers with the
        /// key and operators may read the metrics.
        public var keyFile: String?
    }

    /// The address to listen on.
    public var host = "127.0.0.1"
    /// The port to listen on; 0 for a free one.
    public var port = 8080
    /// The certificate and key for TLS; nil for plain HTTP.
    public var tls: TLS?
    /// The database of the tables.
    public var database = Database.sqlite(path: "tideline.db")
    /// The address of a read-only PostgreSQL replica, `postgres://…`, from which pages are read; nil for none.
    ///
    /// A caller never receives an older state than before: if the replica lags, the database itself is read.
    public var replica: String?
    /// The server's address as clients use it, for links; needed behind a proxy.
    public var publicURL: String?
    /// The tokens that the server accepts; nil for a server without users.
    public var authentication: Authentication?
    /// The web pages that may call the server from a browser; none by default.
    public var cors = CORS()
    /// The proxies that are trusted to report the client's address.
    public var proxies = Proxies()
    /// The page for operators at `/`.
    public var dashboard = Dashboard()
    /// The access to `/metrics`.
    public var metrics = Metrics()
    /// Whether tables and columns are created from incoming requests.
    public var dynamicSchema = false
    /// The tables.
    public var tables: [TableDefinition] = []
    /// The hooks, by table; `docs/hooks.md` describes them.
    public var hooks: [String: TableHooks] = [:]
    /// The endpoints that the server serves under `/api`.
    public var endpoints: [Endpoint] = []
    /// The number of database reads that run concurrently with the event loops, at least 2.
    ///
    /// Nil means one for each core, or two for each with PostgreSQL, where each read has its own connection.
    public var readers: Int?
    /// The limits of requests on tables.
    public var limits = ServerLimits()
    /// The limits of connections.
    public var http = HTTPLimits()
    /// The number of threads that serve connections; the default is one for each core, up to 16.
    public var loops = min(max(1, ProcessInfo.processInfo.activeProcessorCount), 16)
    /// The log on standard error.
    public var log = Log()

    /// Creates the default configuration: no tables, a database file `tideline.db`, 127.0.0.1:8080.
    public init() {}

    /// Creates a configuration from the bytes of a file, and checks the key files that it names.
    ///
    /// - Parameters:
    ///   - json: The bytes.
    ///   - directory: The directory against which relative file names are resolved, including that of the
    ///     database: usually that of the configuration file. Nil means the working directory of the process.
    /// - Throws: ``ConfigurationError``, which lists every error with its path.
    public init(json: [UInt8], directory: String? = nil) throws(ConfigurationError) {
        let problems = ConfigurationProblems()
        if let root = ConfigurationNode(json, problems: problems) {
            read(root, directory: directory)
        }
        guard problems.lines.isEmpty else { throw ConfigurationError(problems.lines) }
    }

    /// Sets host and port from `HOST:PORT`.
    ///
    /// The host is an address of this machine, in brackets for IPv6, or `localhost`.
    public mutating func setListen(_ text: String) throws(ConfigurationError) {
        guard let colon = text.lastIndex(of: ":"), colon != text.startIndex,
            let port = Self.port(text[text.index(after: colon)...])
        else {
            throw ConfigurationError([
                "HOST:PORT with a port from 0 to 65535 is expected, not '\(text)'"
            ])
        }
        host = try Self.listenHost(text[..<colon], in: text)
        self.port = port
    }

    private static func port(_ text: Substring) -> Int? {
        guard text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let port = Int(text) else {
            return nil
        }
        return (0...65535).contains(port) ? port : nil
    }

    private static func listenHost(
        _ host: Substring,
        in text: String
    ) throws(ConfigurationError) -> String {
        var four = in_addr()
        var six = in6_addr()
        if host == "localhost" || inet_pton(AF_INET, String(host), &four) == 1 {
            return String(host)
        }
        let bare = String(
            host.hasPrefix("[") && host.hasSuffix("]") ? host.dropFirst().dropLast() : host
        )
        guard inet_pton(AF_INET6, bare, &six) == 1 else {
            throw ConfigurationError([
                "the host must be an IPv4 address of this machine, an IPv6 address in brackets, or localhost, "
                    + "such as 127.0.0.1:8080, [::1]:8080 or 0.0.0.0:8080 for all; not '\(text)'"
            ])
        }
        guard bare.utf8.count < host.utf8.count else {
            throw ConfigurationError([
                "an IPv6 address must be in brackets, such as [::1]:8080; not '\(text)'"
            ])
        }
        return bare
    }

    /// Sets the replica from `postgres://USER:PASSWORD@HOST:PORT/DATABASE`.
    mutating func setReplica(_ text: String) throws(ConfigurationError) {
        guard Self.isPostgres(text) else {
            throw ConfigurationError(["postgres://… is expected"])
        }
        replica = text
    }

    private static func isPostgres(_ text: String) -> Bool {
        text.hasPrefix("postgres:") || text.hasPrefix("postgresql:")
    }

    /// Sets the database from `sqlite:PATH` or `postgres://USER:PASSWORD@HOST:PORT/DATABASE`.
    ///
    /// - Parameters:
    ///   - text: The address.
    ///   - directory: The directory against which a relative PATH is resolved; nil for the working directory of
    ///     the process.
    /// - Throws: ``ConfigurationError``, which does not contain the address, because that may contain a
    ///   password.
    public mutating func setDatabase(
        _ text: String,
        directory: String? = nil
    ) throws(ConfigurationError) {
        if text == "sqlite::memory:" {
            database = .memory
        } else if text.hasPrefix("sqlite:"), text.utf8.count > 7 {
            database = .sqlite(path: Self.path(String(text.dropFirst(7)), in: directory))
        } else if Self.isPostgres(text) {
            database = .postgres(url: text)
        } else {
            // The rest of the text may be a password.
            let scheme = text.prefix { $0 != ":" }
            throw ConfigurationError([
                "sqlite:PATH or postgres://… is expected, not '\(scheme)\(scheme.count < text.count ? ":…" : "")'"
            ])
        }
    }
}

/// The errors of a configuration.
public struct ConfigurationError: Error, Hashable, Sendable, CustomStringConvertible {
    /// One line for each error, with its path and the allowed values.
    public var faults: [String]

    init(_ faults: [String]) {
        self.faults = faults
    }

    /// The errors, one per line.
    public var description: String { faults.joined(separator: "\n") }
}
