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

    static let usage = """
        Usage: tideline serve [--config FILE] [--database sqlite:PATH] [--listen HOST:PORT]
                              [--dynamic-schema]
               tideline --help
               tideline --version

        serve              Starts the server. It prints 'listening on http://HOST:PORT' when ready.
          --config FILE    The configuration, one JSON file; without it there is one table,
                           TodoItem, with the columns text and complete.
          --database       Where the tables are; default sqlite:tideline.db.
          --listen         The address; default 127.0.0.1:8080. Port 0 picks one.
          --dynamic-schema Makes tables and columns from what arrives.

        SIGTERM and SIGINT finish what is under way and end the server; a second one ends it at once.
        """

    init(_ words: [String]) throws {
        switch words.first {
        case "--help", "-h", "help": self = .help
        case "--version": self = .version
        case "serve": self = try Self.serve(Array(words.dropFirst()))
        case let word?:
            throw UsageError("'\(word)' is unknown; allowed are serve, --help, --version.")
        case nil:
            throw UsageError("A command is missing; allowed are serve, --help, --version.")
        }
    }

    private static func serve(_ words: [String]) throws -> Arguments {
        var options: [String: String] = [:]
        var isDynamic = false
        var rest = words[...]
        while let word = rest.popFirst() {
            let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let name = String(parts[0])
            switch name {
            case "--dynamic-schema" where parts.count == 1: isDynamic = true
            case "--help", "-h": return .help
            case "--config", "--database", "--listen":
                guard let value = parts.count > 1 ? String(parts[1]) : rest.popFirst() else {
                    throw UsageError("\(name) needs a value; see tideline --help.")
                }
                guard options.updateValue(value, forKey: name) == nil else {
                    throw UsageError("\(name) comes twice.")
                }
            default:
                throw UsageError(
                    "'\(word)' is unknown; serve takes --config, --database, --listen, "
                        + "--dynamic-schema."
                )
            }
        }
        var configuration = try Self.configuration(options["--config"])
        if isDynamic { configuration.dynamicSchema = true }
        try set("--database", options) { text throws(ConfigurationError) in
            try configuration.setDatabase(text)
        }
        try set("--listen", options) { text throws(ConfigurationError) in
            try configuration.setListen(text)
        }
        return .serve(configuration)
    }

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
            return try ServerConfiguration(json: Array(data))
        } catch {
            throw UsageError("The configuration in '\(path)' has faults:\n\(error)")
        }
    }
}
