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

    static let usage = """
        Usage: tideline serve [--config FILE] [--database sqlite:PATH] [--listen HOST:PORT]
                              [--dynamic-schema]
               tideline token --config FILE --subject NAME [--expires SECONDS]
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

        SIGTERM and SIGINT finish what is under way and end the server; a second one ends it at once.
        """

    init(_ words: [String]) throws {
        switch words.first {
        case "--help", "-h", "help": self = .help
        case "--version": self = .version
        case "serve": self = try Self.serve(Array(words.dropFirst()))
        case "token": self = try Self.token(Array(words.dropFirst()))
        case let word?:
            throw UsageError("'\(word)' is unknown; allowed are \(Self.commands).")
        case nil:
            throw UsageError("A command is missing; allowed are \(Self.commands).")
        }
    }

    private static let commands = "serve, token, --help, --version"

    private static func serve(_ words: [String]) throws -> Arguments {
        guard
            let given = try Options(
                words,
                of: "serve",
                taking: ["--config", "--database", "--listen"],
                flags: ["--dynamic-schema"]
            )
        else { return .help }
        let options = given.values
        var configuration = try Self.configuration(options["--config"])
        if given.flags.contains("--dynamic-schema") { configuration.dynamicSchema = true }
        try set("--database", options) { text throws(ConfigurationError) in
            try configuration.setDatabase(text)
        }
        try set("--listen", options) { text throws(ConfigurationError) in
            try configuration.setListen(text)
        }
        return .serve(configuration)
    }

    private static func token(_ words: [String]) throws -> Arguments {
        let names = ["--config", "--subject", "--expires"]
        guard let given = try Options(words, of: "token", taking: names, flags: []) else {
            return .help
        }
        guard let path = given.values["--config"] else {
            throw UsageError("--config is missing: the token is for the server of a configuration.")
        }
        guard let subject = given.values["--subject"], !subject.isEmpty else {
            throw UsageError("--subject is missing: whom the token is for.")
        }
        var seconds = 86_400
        if let text = given.values["--expires"] {
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
            throw UsageError("--config: the file '\(path)' cannot be read.")
        }
        do {
            let directory = URL(filePath: path).deletingLastPathComponent().path
            return try ServerConfiguration(json: Array(data), directory: directory)
        } catch {
            throw UsageError("The configuration in '\(path)' has faults:\n\(error)")
        }
    }
}

/// The words behind a command: `--name value`, `--name=value`, and `--flag`.
private struct Options {
    var values: [String: String] = [:]
    var flags: Set<String> = []

    /// Nil when help is asked for.
    init?(
        _ words: [String],
        of command: String,
        taking names: [String],
        flags known: [String]
    ) throws {
        var rest = words[...]
        while let word = rest.popFirst() {
            let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let name = String(parts[0])
            if name == "--help" || name == "-h" { return nil }
            if known.contains(name), parts.count == 1 {
                flags.insert(name)
                continue
            }
            guard names.contains(name) else {
                let allowed = (names + known).joined(separator: ", ")
                throw UsageError("'\(word)' is unknown; \(command) takes \(allowed).")
            }
            guard let value = parts.count > 1 ? String(parts[1]) : rest.popFirst() else {
                throw UsageError("\(name) needs a value; see tideline --help.")
            }
            guard values.updateValue(value, forKey: name) == nil else {
                throw UsageError("\(name) comes twice.")
            }
        }
    }
}
