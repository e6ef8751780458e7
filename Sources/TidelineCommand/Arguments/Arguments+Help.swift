// Arguments+Help: the help of a single command, taken from the usage of all.

extension Arguments {
    /// Returns the synopsis and the section of a command, and the text that all commands share.
    static func usage(of command: String) -> String {
        let lines = usage.split(separator: "\n", omittingEmptySubsequences: false)
        let end = lines.firstIndex(of: "") ?? lines.endIndex
        let synopsis = synopsis(of: command, lines[..<end])
        var section = section(of: command, lines[end...])
        if synopsis.contains(where: { $0.contains("--json") }) {
            section += lines[end...].filter { $0.hasPrefix("--json") }
        }
        let head = synopsis.joined(separator: "\n").drop { $0 == " " }
        let start = head.hasPrefix("Usage: ") ? "" : "Usage: "
        return start + head + "\n\n" + section.joined(separator: "\n")
    }

    private static func synopsis(of command: String, _ lines: ArraySlice<Substring>) -> [Substring]
    {
        var found: [Substring] = []
        var isOwn = false
        for line in lines {
            let words = line.split(separator: " ")
            if let place = words.firstIndex(of: "tideline") {
                isOwn = words.dropFirst(place + 1).first == command[...]
            }
            if isOwn { found.append(line) }
        }
        return found
    }

    /// Returns the section that begins at the margin with the name of the command.
    private static func section(of command: String, _ lines: ArraySlice<Substring>) -> [Substring] {
        let start = lines.firstIndex { line in
            !line.hasPrefix(" ") && line.split(separator: " ").first == command[...]
        }
        guard let start else { return [] }
        return [lines[start]] + lines[(start + 1)...].prefix { $0.hasPrefix("  ") }
    }
}
