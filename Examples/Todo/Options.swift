// Options: the parsed command line.

import Foundation

struct Options {
    enum Command {
        case add(String)
        case list(all: Bool, remote: Bool)
        case done(String)
        case edit(String, String)
        case remove(String)
        case sync(verify: Bool)
        case status
        case why(String)
        case conflicts
        case keepMine(String)
        case takeTheirs(String, discards: Bool)
        case help
    }

    static let usage = """
        usage: todo [--store FILE] [--server URL] [--allow-insecure-endpoint] COMMAND

          add TEXT              add an item
          list [--all]          show open items, or all of them
          list --remote         show what the server has
          done ID               mark an item as done
          edit ID TEXT          change an item
          rm ID                 remove an item
          sync [--verify]       send and fetch changes; with --verify, compare and repair
          status                pending operations, last sync, errors
          why ID                why an item is here, missing, old, or not sent
          conflicts             changes that the server rejected
          conflicts keep-mine ID | take-theirs ID [--discard]

        You can shorten an ID to its first letters. Only sync and list --remote need the network.
        Put '--' before a text that begins with '-'. Plain http to another machine has to be allowed,
        because the network can read and change the requests.
        Environment: TODO_STORE (default todo.sqlite), TODO_SERVER (default http://127.0.0.1:8080),
        TODO_ALLOW_INSECURE_ENDPOINT (1 or 0).
        """

    var store: String
    var server: URL
    var allowsInsecureEndpoint: Bool
    var command: Command

    init(_ arguments: [String], environment: [String: String]) throws {
        store = environment["TODO_STORE"] ?? "todo.sqlite"
        allowsInsecureEndpoint = try Self.isAllowed(environment["TODO_ALLOW_INSECURE_ENDPOINT"])
        var address = environment["TODO_SERVER"] ?? "http://127.0.0.1:8080"
        var words: [String] = []
        var rest = arguments[...]
        while let word = rest.popFirst() {
            switch word {
            case "--store": store = try Self.value(of: word, &rest)
            case "--server": address = try Self.value(of: word, &rest)
            case "--allow-insecure-endpoint": allowsInsecureEndpoint = true
            case _ where word.hasPrefix("--store="): store = String(word.dropFirst(8))
            case _ where word.hasPrefix("--server="): address = String(word.dropFirst(9))
            case "--":
                words += rest
                rest = []
            case "--help" where words.count <= 1, "-h" where words.count <= 1: words = ["help"]
            case _ where words.isEmpty && word.hasPrefix("-"):
                throw UsageError(message: "unknown option '\(word)'.")
            default: words.append(word)
            }
        }
        guard let url = URL(string: address), url.scheme == "http" || url.scheme == "https",
            url.host() != nil, (1...65535).contains(url.port ?? 80)
        else {
            throw UsageError(
                message: "'\(address)' is not a server URL. Use one such as http://127.0.0.1:8080."
            )
        }
        guard url.user() == nil, url.password() == nil, url.query() == nil, url.fragment() == nil
        else {
            throw UsageError(
                message: "a server URL must not have a user name, password, query or fragment."
            )
        }
        server = url
        command = try Self.command(words)
    }

    private static func value(of option: String, _ rest: inout ArraySlice<String>) throws -> String
    {
        if let value = rest.popFirst() { return value }
        throw UsageError(message: "\(option) needs a value.")
    }

    private static func isAllowed(_ text: String?) throws -> Bool {
        switch text?.lowercased() {
        case nil, "", "0", "no", "false": return false
        case "1", "yes", "true": return true
        default:
            throw UsageError(message: "TODO_ALLOW_INSECURE_ENDPOINT must be 1 or 0.")
        }
    }

    private static func text(_ words: some Sequence<String>) throws -> String {
        let text = words.joined(separator: " ")
        if text.allSatisfy(\.isWhitespace) { throw UsageError(message: "the text is empty.") }
        return text
    }

    private static func id(
        _ words: [String],
        of command: String,
        from list: String = "todo list --all"
    ) throws -> String {
        guard let word = words.first else {
            throw UsageError(message: "\(command) needs the ID of an item. See '\(list)'.")
        }
        if words.count > 1 {
            throw UsageError(
                message: "\(command) takes one ID; remove '\(words[1])'."
            )
        }
        if word.isEmpty { throw UsageError(message: "the id is empty.") }
        return word
    }

    private static func nothing(_ words: [String], behind command: String) throws {
        guard let word = words.first else { return }
        throw UsageError(message: "\(command) takes no arguments; remove '\(word)'.")
    }

    private static func command(_ words: [String]) throws -> Command {
        guard let word = words.first else { throw UsageError(message: "a command is missing.") }
        let values = Array(words.dropFirst())
        switch word {
        case "add":
            guard !values.isEmpty else { throw UsageError(message: "add needs a text.") }
            return .add(try text(values))
        case "list":
            for word in values where word != "--all" && word != "--remote" {
                throw UsageError(message: "list does not take '\(word)'.")
            }
            return .list(all: values.contains("--all"), remote: values.contains("--remote"))
        case "done": return .done(try id(values, of: word))
        case "edit":
            let item = try id(Array(values.prefix(1)), of: word)
            guard values.count > 1 else {
                throw UsageError(message: "edit needs the new text after the ID.")
            }
            return .edit(item, try text(values.dropFirst()))
        case "rm": return .remove(try id(values, of: word))
        case "sync":
            for word in values where word != "--verify" {
                throw UsageError(
                    message: "sync takes no argument but --verify; remove '\(word)'."
                )
            }
            return .sync(verify: !values.isEmpty)
        case "status":
            try nothing(values, behind: word)
            return .status
        case "why": return .why(try id(values, of: word))
        case "conflicts": return try conflicts(values)
        case "help": return .help
        default: throw UsageError(message: "unknown command '\(word)'.")
        }
    }

    private static func conflicts(_ words: [String]) throws -> Command {
        var values = Array(words.dropFirst())
        switch words.first {
        case nil: return .conflicts
        case "keep-mine":
            return .keepMine(try id(values, of: "keep-mine", from: "todo conflicts"))
        case "take-theirs":
            let discards = values.contains("--discard")
            values.removeAll { $0 == "--discard" }
            let id = try id(values, of: "take-theirs", from: "todo conflicts")
            return .takeTheirs(id, discards: discards)
        case let word?:
            throw UsageError(
                message: "conflicts takes 'keep-mine ID' and 'take-theirs ID', not '\(word)'."
            )
        }
    }
}
