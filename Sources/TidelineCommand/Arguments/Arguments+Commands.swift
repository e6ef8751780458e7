// Arguments+Commands: the arguments of each command.

import Foundation
import TidelineServer
import TidelineServerCore

extension Arguments {
    static func serve(_ words: [String]) throws -> Arguments {
        let words = try Words(
            of: "serve",
            words,
            options: ["--config", "--database", "--listen"],
            flags: ["--dynamic-schema"]
        )
        return words.wantsHelp ? .help : .serve(try configuration(words))
    }

    static func check(_ words: [String]) throws -> Arguments {
        let words = try Words(
            of: "check",
            words,
            options: ["--config", "--database", "--listen"],
            flags: ["--dynamic-schema", "--json"]
        )
        guard !words.wantsHelp else { return .help }
        do {
            let configuration = try configuration(words)
            let mistakes = configuration.mistakes()
            return .check(configuration, mistakes: mistakes, isJSON: words.isJSON)
        } catch let error as ConfigurationFileError {
            return .check(ServerConfiguration(), mistakes: error.faults, isJSON: words.isJSON)
        }
    }

    static func certificate(_ words: [String]) throws -> Arguments {
        let words = try Words(
            of: "certificate",
            words,
            options: ["--host", "--directory"],
            flags: ["--json"]
        )
        guard !words.wantsHelp else { return .help }
        let hosts = words.options["--host"]?.split(separator: ",").map(String.init) ?? []
        guard !hosts.isEmpty else {
            throw UsageError(
                "--host is missing: a name or address by which devices reach the server."
            )
        }
        for host in hosts {
            do { try ServerCertificate.check(host: host) } catch {
                throw UsageError("--host: \(error)")
            }
        }
        let directory = words.options["--directory"] ?? "certificates"
        return .certificate(hosts: hosts, directory: directory, isJSON: words.isJSON)
    }

    static func backup(_ words: [String]) throws -> Arguments {
        let words = try Words(
            of: "backup",
            words,
            options: ["--config", "--database"],
            flags: ["--json"],
            name: "FILE",
            needsName: false
        )
        guard !words.wantsHelp else { return .help }
        let configuration = try configuration(words)
        if words.names.isEmpty {
            guard case .postgres = configuration.database else {
                throw UsageError("backup needs FILE; see tideline --help.")
            }
        }
        return .backup(configuration, file: words.names.first, isJSON: words.isJSON)
    }

    static func restore(_ words: [String]) throws -> Arguments {
        let words = try Words(
            of: "restore",
            words,
            options: ["--config", "--database"],
            flags: ["--json"],
            name: "FILE"
        )
        guard !words.wantsHelp, let file = words.names.first else { return .help }
        return .restore(try configuration(words), backup: file, isJSON: words.isJSON)
    }

    static func purgeTombstones(_ words: [String]) throws -> Arguments {
        let words = try Words(
            of: "purge-tombstones",
            words,
            options: ["--days", "--tables", "--config", "--database"],
            flags: ["--trust-clock", "--json"]
        )
        guard !words.wantsHelp else { return .help }
        guard let days = words.options["--days"].flatMap({ Int($0) }), (0...36_500).contains(days)
        else {
            throw UsageError("--days: a number of days from 0 to 36500 is expected.")
        }
        return .purgeTombstones(
            try configuration(words),
            tables: words.options["--tables"]?.split(separator: ",").map(String.init),
            days: days,
            trustsClock: words.flags.contains("--trust-clock"),
            isJSON: words.isJSON
        )
    }

    static func resetClocks(_ words: [String]) throws -> Arguments {
        let words = try Words(
            of: "reset-clocks",
            words,
            options: ["--tables", "--config", "--database"],
            flags: ["--json"]
        )
        guard !words.wantsHelp else { return .help }
        return .resetClocks(
            try configuration(words),
            tables: words.options["--tables"]?.split(separator: ",").map(String.init),
            isJSON: words.isJSON
        )
    }

    static func inspect(_ words: [String]) throws -> Arguments {
        let words = try Words(
            of: "inspect",
            words,
            options: ["--config", "--database"],
            flags: ["--json"],
            name: "FILE",
            needsName: false
        )
        guard !words.wantsHelp else { return .help }
        guard let file = words.names.first else {
            guard !words.options.isEmpty else {
                throw UsageError("inspect needs FILE; see tideline --help.")
            }
            return .inspectDatabase(try configuration(words), isJSON: words.isJSON)
        }
        guard words.options.isEmpty else {
            throw UsageError("FILE cannot be combined with --config and --database.")
        }
        return .inspect(file: file, isJSON: words.isJSON)
    }

    static func audit(_ words: [String]) throws -> Arguments {
        let words = try Words(
            of: "audit",
            words,
            options: ["--table", "--id", "--user", "--last", "--config", "--database"],
            flags: ["--json"]
        )
        guard !words.wantsHelp else { return .help }
        var query = AuditQuery(
            table: words.options["--table"],
            id: words.options["--id"],
            user: words.options["--user"]
        )
        if let text = words.options["--last"] {
            guard let count = Int(text), (1...1_000_000).contains(count) else {
                throw UsageError("--last: a number from 1 to 1000000 is expected.")
            }
            query.countMax = count
        }
        return .audit(try configuration(words), query, isJSON: words.isJSON)
    }

    static func doctor(_ words: [String]) throws -> Arguments {
        let names = ["--server", "--token", "--store", "--models", "--authority"]
        let words = try Words(of: "doctor", words, options: names, flags: ["--json"])
        guard !words.wantsHelp else { return .help }
        guard let text = words.options["--server"], let url = URL(string: text),
            ["http", "https"].contains(url.scheme), url.host != nil
        else {
            throw UsageError("--server: an address such as https://todo.example is expected.")
        }
        let doctor = Doctor(
            server: url,
            token: try token(words),
            store: words.options["--store"],
            models: words.options["--models"],
            authority: try authority(words)
        )
        return .doctor(doctor, isJSON: words.isJSON)
    }

    /// Returns the content of a token file.
    static func token(_ words: Words) throws -> String? {
        guard let path = words.options["--token"] else { return nil }
        guard let data = FileManager.default.contents(atPath: path) else {
            throw UsageError("--token: \(reason(path))")
        }
        return String(decoding: data, as: UTF8.self)
            .trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// Checks that the certificates of the `--authority` file can be read, and returns its path.
    ///
    /// The HTTP client library does not report a file that it cannot read.
    static func authority(_ words: Words) throws -> String? {
        guard let path = words.options["--authority"] else { return nil }
        do throws(ConfigurationError) {
            try ServerCertificate.checkAuthorities(in: path)
        } catch {
            throw UsageError(
                "--authority: \(error) Use a PEM file with the certificates of authorities, such as "
                    + "authority.pem from 'tideline certificate'."
            )
        }
        return path
    }

    static func bench(_ words: [String]) throws -> Arguments {
        let words = try Words(
            of: "bench",
            words,
            options: [
                "--table", "--connections", "--seconds", "--writes", "--token", "--authority",
            ],
            flags: ["--json"],
            name: "URL"
        )
        guard !words.wantsHelp, let text = words.names.first else { return .help }
        guard let url = URL(string: text), ["http", "https"].contains(url.scheme), url.host != nil
        else { throw UsageError("URL: an address such as https://todo.example is expected.") }
        guard let table = words.options["--table"], !table.isEmpty else {
            throw UsageError("--table is missing: the name of the table to read and write.")
        }
        func number(_ name: String, _ range: ClosedRange<Int>, or usual: Int) throws -> Int {
            guard let text = words.options[name] else { return usual }
            guard let value = Int(text), range.contains(value) else {
                throw UsageError(
                    "\(name): a number from \(range.lowerBound) to \(range.upperBound) is expected."
                )
            }
            return value
        }
        var bench = Bench(
            server: url,
            table: table,
            token: try token(words),
            authority: try authority(words)
        )
        bench.connections = try number(
            "--connections",
            1...Bench.connectionsMax,
            or: bench.connections
        )
        bench.seconds = try number("--seconds", 1...Bench.secondsMax, or: bench.seconds)
        bench.writes = try number("--writes", 0...100, or: bench.writes)
        return .bench(bench, isJSON: words.isJSON)
    }

    static func restored(_ words: [String]) throws -> Arguments {
        let words = try Words(
            of: "restored",
            words,
            options: ["--config", "--database"],
            flags: ["--json"]
        )
        return words.wantsHelp
            ? .help : .restored(try configuration(words), isJSON: words.isJSON)
    }

    static func migrate(_ words: [String]) throws -> Arguments {
        let words = try Words(
            of: "migrate",
            words,
            options: ["--config", "--database"],
            flags: ["--apply", "--dry-run", "--dynamic-schema", "--json"]
        )
        guard !words.wantsHelp else { return .help }
        let (isApplied, isDry) = (
            words.flags.contains("--apply"), words.flags.contains("--dry-run")
        )
        guard !(isApplied && isDry) else {
            throw UsageError("--apply and --dry-run cannot be combined.")
        }
        return .migrate(
            try configuration(words),
            isApplied: isApplied,
            showsSQL: isDry,
            isJSON: words.isJSON
        )
    }

    static func copy(_ words: [String]) throws -> Arguments {
        let words = try Words(
            of: "copy",
            words,
            options: ["--from", "--to"],
            flags: ["--json"]
        )
        guard !words.wantsHelp else { return .help }
        func database(_ name: String) throws -> ServerConfiguration.Database {
            guard words.options[name] != nil else {
                throw UsageError("\(name) is missing: sqlite:PATH or postgres://…")
            }
            var configuration = ServerConfiguration()
            try set(name, words.options) { text throws(ConfigurationError) in
                try configuration.setDatabase(text)
            }
            return configuration.database
        }
        return .copy(
            from: try database("--from"),
            to: try database("--to"),
            isJSON: words.isJSON
        )
    }

    // MARK: - Configuration

    static func configuration(_ words: Words) throws -> ServerConfiguration {
        var configuration = try Self.configuration(words.options["--config"])
        if words.flags.contains("--dynamic-schema") { configuration.dynamicSchema = true }
        try set("--database", words.options) { text throws(ConfigurationError) in
            try configuration.setDatabase(text)
        }
        try set("--listen", words.options) { text throws(ConfigurationError) in
            try configuration.setListen(text)
        }
        return configuration
    }

    static func readToken(_ words: [String]) throws -> Arguments {
        let names = ["--config", "--subject", "--expires"]
        let given = try Words(of: "token", words, options: names, flags: ["--json"])
        guard !given.wantsHelp else { return .help }
        guard let path = given.options["--config"] else {
            throw UsageError("--config is missing: the configuration of the token's server.")
        }
        guard let subject = given.options["--subject"], !subject.isEmpty else {
            throw UsageError("--subject is missing: the user whom the token names.")
        }
        var seconds = 86_400
        if let text = given.options["--expires"] {
            guard let value = Int(text), (1...secondsMax).contains(value) else {
                throw UsageError(
                    "--expires: a number of seconds from 1 to \(secondsMax) is expected."
                )
            }
            seconds = value
        }
        let configuration = try Self.configuration(path)
        return .token(
            configuration,
            subject: subject,
            lifetime: .seconds(seconds),
            isJSON: given.isJSON
        )
    }

    /// The maximum lifetime of a token: ten years.
    private static let secondsMax = 315_360_000

    private static func set(
        _ name: String,
        _ options: [String: String],
        _ body: (String) throws(ConfigurationError) -> Void
    ) throws {
        guard let value = options[name] else { return }
        do {
            try body(value)
        } catch {
            throw UsageError("\(name): \(error).")
        }
    }

    private static func configuration(_ path: String?) throws -> ServerConfiguration {
        guard let path else {
            var configuration = ServerConfiguration()
            configuration.tables = [
                TableDefinition(
                    "TodoItem",
                    columns: [
                        ColumnDefinition("text", .string), ColumnDefinition("complete", .boolean),
                    ]
                )
            ]
            return configuration
        }
        guard let data = FileManager.default.contents(atPath: path) else {
            throw UsageError("--config: \(reason(path))")
        }
        do {
            let directory = URL(filePath: path).deletingLastPathComponent().path
            return try ServerConfiguration(json: Array(data), directory: directory)
        } catch {
            throw ConfigurationFileError(path: path, faults: error.faults)
        }
    }

    /// Returns the reason why a file cannot be read.
    private static func reason(_ path: String) -> String {
        var isFolder = ObjCBool(false)
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) else {
            return "the file '\(path)' does not exist."
        }
        return isFolder.boolValue
            ? "'\(path)' is a folder; a file is expected."
            : "this user is not permitted to read the file '\(path)'."
    }
}

/// The mistakes in a configuration file.
struct ConfigurationFileError: Error, CustomStringConvertible {
    var path: String
    var faults: [String]

    var description: String { message }

    var message: String {
        "The configuration in '\(path)' has errors:\n\(faults.joined(separator: "\n"))"
    }
}
