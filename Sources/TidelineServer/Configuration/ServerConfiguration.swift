// ServerConfiguration: everything a server is told, in code or in one JSON file.

import Foundation
public import TidelineHTTP
public import TidelineServerCore

/// How a server is set up.
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
    /// Where the tables are.
    public enum Database: Hashable, Sendable {
        /// A file, made when it is not there.
        case sqlite(path: String)
        /// The memory of the process; lost when it ends.
        case memory
        /// A PostgreSQL database, `postgres://user:password@host:port/database`; several servers may
        /// have the same one.
        case postgres(url: String)
    }

    /// What is written to standard error.
    public struct Log: Hashable, Sendable {
        /// How much a line matters.
        public enum Level: String, Hashable, Sendable, CaseIterable {
            /// The server failed.
            case error
            /// Something an operator should look at.
            case warning
            /// Starting and stopping.
            case info
            /// Normal work.
            case debug
        }

        /// How a line looks.
        public enum Format: String, Hashable, Sendable, CaseIterable {
            /// For people.
            case text
            /// For machines.
            case json
        }

        /// Lines that matter less are not written.
        public var level = Level.info
        /// How a line looks.
        public var format = Format.text
        /// How much the line of a request matters.
        public var requests = Level.debug
        /// A request that takes as long has a line of its own, as a warning.
        public var slow: Duration = .seconds(1)
    }

    /// What a server shows that speaks TLS.
    public struct TLS: Hashable, Sendable {
        /// A file with the server's certificate in PEM, and behind it those that lead to its authority.
        public var certificateFile: String
        /// A file with the certificate's private key in PEM, without a passphrase.
        public var keyFile: String

        /// Names the files, which are read at the start and by ``TidelineServer/reload(_:)``.
        public init(certificateFile: String, keyFile: String) {
            self.certificateFile = certificateFile
            self.keyFile = keyFile
        }
    }

    /// Which web pages may call the server from a browser.
    public struct CORS: Hashable, Sendable {
        /// Origins such as `https://app.example`, `https://*.example`, `http://localhost:*`, or `*`.
        public var origins: [String] = []
    }

    /// The proxies whose word is taken for where a request comes from.
    public struct Proxies: Hashable, Sendable {
        /// The field that they write the address of their caller to.
        public enum Header: String, Hashable, Sendable, CaseIterable {
            /// Addresses with commas between them.
            case xForwardedFor = "X-Forwarded-For"
            /// RFC 7239.
            case forwarded = "Forwarded"
        }

        /// Addresses such as `127.0.0.1`, and networks such as `10.0.0.0/8`; none by default.
        public var trusted: [String] = []
        /// The field that they write; others are not looked at, as a caller may have written them.
        public var header = Header.xForwardedFor
    }

    /// The page for operators at `/`.
    public struct Dashboard: Hashable, Sendable {
        /// What it is for.
        public enum Mode: String, Hashable, Sendable, CaseIterable {
            /// Rows are shown and changed.
            case readWrite
            /// Rows are shown.
            case readOnly
            /// It is not there.
            case off
        }

        /// What it is for.
        public var mode = Mode.readWrite
        /// The most devices that are remembered as seen; in memory.
        public var devices = 1000
        /// The most slow requests that are remembered; in memory.
        public var slowRequests = 100
        /// From which time on a request is a slow one.
        public var slowTime: Duration = .milliseconds(250)
    }

    /// Who may read `/metrics`.
    public struct Metrics: Hashable, Sendable {
        /// A file with a key that the scraper sends as a bearer token.
        ///
        /// It has 16 to 4,096 characters of ASCII without blanks. With it the metrics are for who has it
        /// and for operators only.
        public var keyFile: String?
    }

    /// The address to listen on.
    public var host = "127.0.0.1"
    /// The port to listen on; 0 picks one.
    public var port = 8080
    /// What the server shows to speak TLS; nil for plain HTTP.
    public var tls: TLS?
    /// Where the tables are.
    public var database = Database.sqlite(path: "tideline.db")
    /// A copy of a PostgreSQL database that PostgreSQL keeps, `postgres://…`, from which pages are read; nil for none.
    ///
    /// Nobody is shown an earlier state for it: where the copy is behind, the database itself is read.
    public var replica: String?
    /// The server's address as clients see it, for links; needed behind a proxy.
    public var publicURL: String?
    /// Whose tokens the server takes; nil for a server without users.
    public var authentication: Authentication?
    /// Which web pages may call the server from a browser; none by default.
    public var cors = CORS()
    /// The proxies whose word is taken for where a request comes from.
    public var proxies = Proxies()
    /// The page for operators at `/`.
    public var dashboard = Dashboard()
    /// Who may read `/metrics`.
    public var metrics = Metrics()
    /// Whether tables and columns are made from what arrives.
    public var dynamicSchema = false
    /// The tables.
    public var tables: [TableDefinition] = []
    /// Code around the operations on tables, by table; `docs/HOOKS.md` tells about it.
    public var hooks: [String: TableHooks] = [:]
    /// What the server answers under `/api`.
    public var endpoints: [Endpoint] = []
    /// How many reads of the database run beside the event loops, at least 2; nil for one for each
    /// core of the machine, or two for each with PostgreSQL, whose reads have a connection each.
    public var readers: Int?
    /// The bounds of requests on tables.
    public var limits = ServerLimits()
    /// The bounds of connections.
    public var http = HTTPLimits()
    /// The threads that serve connections: as many as there are cores, 16 at most.
    public var loops = min(max(1, ProcessInfo.processInfo.activeProcessorCount), 16)
    /// What is written to standard error.
    public var log = Log()

    /// The defaults: no tables, a database file `tideline.db`, 127.0.0.1:8080.
    public init() {}

    /// Reads the bytes of a configuration file, and looks into the key files that it names.
    ///
    /// - Parameters:
    ///   - json: The bytes.
    ///   - directory: Where relative names of files begin, that of the database too: the directory
    ///     of the configuration file, or nil for that of the process.
    /// - Throws: ``ConfigurationError``, which names every fault with its path.
    public init(json: [UInt8], directory: String? = nil) throws(ConfigurationError) {
        let problems = ConfigurationProblems()
        if let root = ConfigurationNode(json, problems: problems) {
            read(root, directory: directory)
        }
        guard problems.lines.isEmpty else { throw ConfigurationError(problems.lines) }
    }

    /// Sets host and port from `HOST:PORT`.
    ///
    /// The host is an address of this machine or `localhost`, one of IPv6 in brackets.
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
                "the host is an IPv4 address of this machine, one of IPv6 in brackets, or localhost, "
                    + "such as 127.0.0.1:8080, [::1]:8080 or 0.0.0.0:8080 for all; not '\(text)'"
            ])
        }
        guard bare.utf8.count < host.utf8.count else {
            throw ConfigurationError([
                "an address of IPv6 stands in brackets, such as [::1]:8080; not '\(text)'"
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
    ///   - directory: Where a relative PATH begins; nil for the working directory of the process.
    /// - Throws: ``ConfigurationError``, without the text, which may have a password.
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
            // What follows may be a password.
            let scheme = text.prefix { $0 != ":" }
            throw ConfigurationError([
                "sqlite:PATH or postgres://… is expected, not '\(scheme)\(scheme.count < text.count ? ":…" : "")'"
            ])
        }
    }
}

/// What is wrong with a configuration.
public struct ConfigurationError: Error, Hashable, Sendable, CustomStringConvertible {
    /// One line for each fault: its path, and what is allowed there.
    public var faults: [String]

    init(_ faults: [String]) {
        self.faults = faults
    }

    /// The faults, one on a line.
    public var description: String { faults.joined(separator: "\n") }
}
