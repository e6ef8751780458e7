// Arguments+Users: the arguments of the commands for the data of one user.

import TidelineServer

extension Arguments {
    static func export(_ words: [String]) throws -> Arguments {
        let words = try Words(of: "export", words, options: ["--user", "--config", "--database"])
        guard !words.wantsHelp else { return .help }
        return .export(try configuration(words), user: try user(words))
    }

    static func forget(_ words: [String]) throws -> Arguments {
        let words = try Words(
            of: "forget",
            words,
            options: ["--user", "--config", "--database"],
            flags: ["--apply", "--dry-run", "--json"]
        )
        guard !words.wantsHelp else { return .help }
        return .forget(
            try configuration(words),
            user: try user(words),
            isApplied: try isApplied(words),
            isJSON: words.isJSON
        )
    }

    static func owners(_ words: [String]) throws -> Arguments {
        var rest = words
        // `--rename` takes two values; Words supports only options with one value.
        var name: String?
        if let place = rest.firstIndex(of: "--rename"), place + 2 < rest.count {
            name = rest.remove(at: place + 2)
        }
        let given = try Words(
            of: "owners",
            rest,
            options: ["--rename", "--config", "--database"],
            flags: ["--apply", "--dry-run", "--json"]
        )
        guard !given.wantsHelp else { return .help }
        guard let user = given.options["--rename"], let name, !user.isEmpty, !name.isEmpty,
            !name.hasPrefix("--")
        else { throw UsageError("--rename OLD NEW is missing: the user and the new name.") }
        guard !user.utf8.elementsEqual(name.utf8) else {
            throw UsageError("--rename: both names are the same.")
        }
        return .renameOwner(
            try configuration(given),
            user: user,
            name: name,
            isApplied: try isApplied(given),
            isJSON: given.isJSON
        )
    }

    static func compact(_ words: [String]) throws -> Arguments {
        let words = try Words(
            of: "compact",
            words,
            options: ["--config", "--database"],
            flags: ["--json"]
        )
        guard !words.wantsHelp else { return .help }
        return .compact(try configuration(words), isJSON: words.isJSON)
    }

    private static func user(_ words: Words) throws -> String {
        guard let user = words.options["--user"], !user.isEmpty else {
            throw UsageError("--user is missing: the name of the user in the tokens.")
        }
        return user
    }

    private static func isApplied(_ words: Words) throws -> Bool {
        let isApplied = words.flags.contains("--apply")
        guard !(isApplied && words.flags.contains("--dry-run")) else {
            throw UsageError("--apply and --dry-run cannot be combined.")
        }
        return isApplied
    }
}
