// Arguments: the words after `tideline`, read strictly. A fault names the word and what is allowed.

import Foundation
import TidelineServer

struct UsageError: Error {
    var message: String

    init(_ message: String) {
        self.message = message
    }
}

enum Arguments: Sendable {
    case help
    case version
    case serve(ServerConfiguration)
    case token(ServerConfiguration, subject: String, lifetime: Duration)
    case backup(ServerConfiguration, file: String)
    case restored(ServerConfiguration)
    case migrate(ServerConfiguration, isApplied: Bool)

    private static let commands = ["serve", "token", "backup", "restored", "migrate"]

    static let usage = """
        Usage: tideline serve [--config FILE] [--database sqlite:PATH] [--listen HOST:PORT]
                              [--dynamic-schema]
               tideline token --config FILE --subject NAME [--expires SECONDS]
               tideline backup FILE [--config FILE] [--database sqlite:PATH]
               tideline restored [--config FILE] [--database sqlite:PATH]
               tideline migrate [--apply] [--config FILE] [--database sqlite:PATH]
                              [--dynamic-schema]
               tideline --help
               tideline --version

        serve              Starts the server. It prints 'listening on http://HOST:PORT' when ready.
          --config FILE    The configuration, one JSON file; without it there is one table,
                           TodoItem, with the columns text and complete.
          --database       Where the tables are; default sqlite:tideline.db.
          --listen         The address; default 127.0.0.1:8080. Port 0 picks one.
          --dynamic-schema Makes tables and columns from what arrives.

        token              Prints a token for the user NAME that the server of the configuration
                           takes, to try things out; it is signed with authentication.secretFile.
          --expires        How many seconds it holds; default 86400, a day.

        backup FILE        Copies the database into a new file, also while a server runs.
        restored           After a backup was put in place: has all clients pull anew.
        migrate            Shows what has to be done to the tables so that they are as declared.
          --apply          Does it, in one transaction. Make a backup first.

        SIGTERM and SIGINT finish what is under way and end the server; a second one ends it at once.
        """

    init(_ words: [String]) throws {
        let allowed = (Self.commands + ["--help", "--version"]).joined(separator: ", ")
        let rest = Array(words.dropFirst())
        switch words.first {
        case "--help", "-h", "help": self = .help
        case "--version": self = .version
        case "serve": self = try Self.serve(rest)
        case "token": self = try Self.token(rest)
        case "backup": self = try Self.backup(rest)
        case "restored": self = try Self.restored(rest)
        case "migrate": self = try Self.migrate(rest)
        case let word?:
            throw UsageError("'\(word)' is unknown; allowed are \(allowed).")
        case nil:
            throw UsageError("A command is missing; allowed are \(allowed).")
        }
    }

    private static func serve(_ words: [String]) throws -> Arguments {
        let words = try Words(
            of: "serve",
            words,
            options: ["--config", "--database", "--listen"],
            flags: ["--dynamic-schema"]
        )
        return words.wantsHelp ? .help : .serve(try configuration(words))
    }

    private static func backup(_ words: [String]) throws -> Arguments {
        let words = try Words(
            of: "backup",
            words,
            options: ["--config", "--database"],
            name: "FILE"
        )
        guard !words.wantsHelp, let file = words.names.first else { return .help }
        return .backup(try configuration(words), file: file)
    }

    private static func restored(_ words: [String]) throws -> Arguments {
        let words = try Words(of: "restored", words, options: ["--config", "--database"])
        return words.wantsHelp ? .help : .restored(try configuration(words))
    }

    private static func migrate(_ words: [String]) throws -> Arguments {
        let words = try Words(
            of: "migrate",
            words,
            options: ["--config", "--database"],
            flags: ["--apply", "--dynamic-schema"]
        )
        guard !words.wantsHelp else { return .help }
        return .migrate(
            try configuration(words),
            isApplied: words.flags.contains("--apply")
        )
    }

    // MARK: - The configuration

    private static func configuration(_ words: Words) throws -> ServerConfiguration {
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

    private static func token(_ words: [String]) throws -> Arguments {
        let names = ["--config", "--subject", "--expires"]
        let given = try Words(of: "token", words, options: names)
        guard !given.wantsHelp else { return .help }
        guard let path = given.options["--config"] else {
            throw UsageError("--config is missing: the token is for the server of a configuration.")
        }
        guard let subject = given.options["--subject"], !subject.isEmpty else {
            throw UsageError("--subject is missing: whom the token is for.")
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
        return .token(configuration, subject: subject, lifetime: .seconds(seconds))
    }

    /// Ten years.
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
            throw UsageError("The configuration in '\(path)' has faults:\n\(error)")
        }
    }

    /// Why the file cannot be read.
    private static func reason(_ path: String) -> String {
        var isFolder = ObjCBool(false)
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) else {
            return "there is no file '\(path)'."
        }
        return isFolder.boolValue
            ? "'\(path)' is a folder; a JSON file is expected."
            : "the file '\(path)' may not be read by this user."
    }
}
