// Words: parses arguments.

/// The arguments of a command, split into options, flags and names.
struct Words {
    private(set) var options: [String: String] = [:]
    private(set) var flags: Set<String> = []
    /// The arguments that are not options, in order.
    private(set) var names: [String] = []
    private(set) var wantsHelp = false

    /// Whether the output is JSON.
    var isJSON: Bool { flags.contains("--json") }

    /// Parses the arguments of a command.
    ///
    /// - Throws: ``UsageError`` for an option that is unknown, repeated or lacks its value.
    init(
        of command: String,
        _ words: [String],
        options known: [String],
        flags knownFlags: [String] = [],
        name: String? = nil,
        needsName: Bool = true
    ) throws {
        var rest = words[...]
        while let word = rest.popFirst() {
            let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let key = String(parts[0])
            if word == "--help" || word == "-h" {
                wantsHelp = true
            } else if parts.count == 1, knownFlags.contains(word) {
                flags.insert(word)
            } else if known.contains(key) {
                guard let value = parts.count > 1 ? String(parts[1]) : rest.popFirst() else {
                    throw UsageError("\(key) needs a value; see tideline --help.")
                }
                guard options.updateValue(value, forKey: key) == nil else {
                    throw UsageError("\(key) is given twice.")
                }
            } else if name != nil, names.isEmpty, !word.hasPrefix("-") {
                names.append(word)
            } else {
                let allowed = ([name].compactMap(\.self) + known + knownFlags)
                    .joined(separator: ", ")
                throw UsageError("'\(word)' is unknown; allowed for \(command) are \(allowed).")
            }
        }
        if let name, needsName, names.isEmpty, !wantsHelp {
            throw UsageError("\(command) needs \(name); see tideline --help.")
        }
    }
}
