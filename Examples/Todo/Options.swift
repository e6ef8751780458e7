// Options: the command line as a value.

import Foundation

struct Options {
    enum Command {
        case add(String)
        case list(all: Bool, remote: Bool)
        case done(String)
        case edit(String, String)
        case remove(String)
        case sync
        case status
        case conflicts
        case settle(String, keepMine: Bool)
        case help
    }

    static let usage = """
        usage: todo [--store FILE] [--server URL] COMMAND

          add TEXT              add an item
          list [--all]          show open items, or all of them
          list --remote         show what the server has
          done ID               mark an item as done
          edit ID TEXT          change an item
          rm ID                 remove an item
          sync                  send and fetch changes
          status                pending operations, last sync, errors
          conflicts             changes that the server rejected
          conflicts keep-mine ID | take-theirs ID

        An ID may be cut to its first letters. Everything but sync and list --remote works offline.
        Environment: TODO_STORE (default todo.sqlite), TODO_SERVER (default http://127.0.0.1:8080).
        """

    var store: String
    var server: URL
    var command: Command

    init(_ arguments: [String], environment: [String: String]) throws {
        store = environment["TODO_STORE"] ?? "todo.sqlite"
        var address = environment["TODO_SERVER"] ?? "http://127.0.0.1:8080"
        var words: [String] = []
        var rest = arguments[...]
        while let word = rest.popFirst() {
            switch word {
            case "--store", "--server":
                guard let value = rest.popFirst() else {
                    throw UsageError(message: "\(word) needs a value.")
                }
                if word == "--store" { store = value } else { address = value }
            case "--help",
                "-h" where words.count <= 1:
                words = ["help"]
            case _ where words.isEmpty && word.hasPrefix("-"):
                throw UsageError(message: "'\(word)' is unknown.")
            default: words.append(word)
            }
        }
        guard let url = URL(string: address), url.scheme == "http" || url.scheme == "https",
            url.host() != nil
        else {
            throw UsageError(
                message: "'\(address)' is no server URL. Give one like http://host:8080."
            )
        }
        server = url
        command = try Self.command(words)
    }

    private static func text(_ words: some Sequence<String>) throws -> String {
        let text = words.joined(separator: " ")
        if text.allSatisfy(\.isWhitespace) { throw UsageError(message: "the text is empty.") }
        return text
    }

    private static func id(_ word: String) throws -> String {
        if word.isEmpty { throw UsageError(message: "the id is empty.") }
        return word
    }

    private static let commands: Set = [
        "add", "list", "done", "edit", "rm", "sync", "status", "conflicts",
    ]

    private static func command(_ words: [String]) throws -> Command {
        let values = Array(words.dropFirst())
        switch (words.first, values.count) {
        case ("add", 1...): return .add(try text(values))
        case ("list", _):
            for word in values where word != "--all" && word != "--remote" {
                throw UsageError(message: "list does not know '\(word)'.")
            }
            return .list(all: values.contains("--all"), remote: values.contains("--remote"))
        case ("done", 1): return .done(try id(values[0]))
        case ("edit", 2...): return .edit(try id(values[0]), try text(values.dropFirst()))
        case ("rm", 1): return .remove(try id(values[0]))
        case ("sync", 0): return .sync
        case ("status", 0): return .status
        case ("conflicts", 0): return .conflicts
        case ("conflicts", 2) where values[0] == "keep-mine":
            return .settle(try id(values[1]), keepMine: true)
        case ("conflicts", 2) where values[0] == "take-theirs":
            return .settle(try id(values[1]), keepMine: false)
        case ("help", _): return .help
        case (nil, _): throw UsageError(message: "a command is missing.")
        case (let word?, _) where commands.contains(word):
            throw UsageError(message: "'\(word)' is used in another way.")
        case (let word?, _): throw UsageError(message: "there is no command '\(word)'.")
        }
    }
}
