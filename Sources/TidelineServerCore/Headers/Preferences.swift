// Preferences: the header field `Prefer`.

/// The preferences of a caller (RFC 7240), and the header value that reports the applied ones.
package struct Preferences: Hashable, Sendable {
    /// The maximum number of rows of a page (OData 4.01 part 1, 8.2.8.6).
    package private(set) var pageSize: Int?
    /// The name with which the page size was requested, with or without the prefix `odata.`.
    private var pageSizeName = ""
    /// Whether a batch continues after a request that failed (OData 4.01 part 1, 8.2.8.3).
    package private(set) var continuesOnError: Bool?
    /// The value of that preference as it was sent.
    package private(set) var continuesOnErrorText = ""
    /// Whether a batch is a dry run, whose writes are undone.
    package private(set) var wantsDryRun = false
    /// The preference for a dry run.
    package static let dryRun = "tideline.dry-run"
    /// The name with which change tracking was requested (OData 4.01 part 1, 8.2.8.8).
    private var trackingName: String?

    /// Whether the caller asks for a delta link at the end of a list.
    package var tracksChanges: Bool { trackingName != nil }

    package init() {}

    /// Parses one field; unknown or malformed preferences are ignored, as RFC 7240 requires.
    package mutating func read(_ field: String) {
        for preference in field.utf8.split(separator: UInt8(ascii: ",")) {
            let text = Substring(preference.prefix { $0 != UInt8(ascii: ";") })
            let parts = text.split(separator: "=", maxSplits: 1).map(Self.trimmed)
            if trackingName == nil, parts.count == 1,
                ASCII.equal(parts[0], "odata.track-changes")
                    || ASCII.equal(parts[0], "track-changes")
            {
                trackingName = parts[0].lowercased()
            }
            if parts.count == 1, ASCII.equal(parts[0], "tideline.dry-run") { wantsDryRun = true }
            // If the preference is repeated, the first one counts.
            readContinuesOnError(parts)
            guard parts.count == 2, pageSize == nil,
                ASCII.equal(parts[0], "odata.maxpagesize") || ASCII.equal(parts[0], "maxpagesize"),
                let value = Self.number(parts[1])
            else { continue }
            pageSize = value
            pageSizeName = parts[0].lowercased()
        }
    }

    private mutating func readContinuesOnError(_ parts: [Substring]) {
        guard let name = parts.first, continuesOnError == nil,
            ASCII.equal(name, "continue-on-error") || ASCII.equal(name, "odata.continue-on-error")
        else { return }
        let value = parts.count > 1 ? parts[1].filter { $0 != "\"" } : "true"
        guard ASCII.equal(value, "true") || ASCII.equal(value, "false") else { return }
        continuesOnError = ASCII.equal(value, "true")
        continuesOnErrorText = name.lowercased() + (parts.count > 1 ? "=" + value.lowercased() : "")
    }

    /// Returns the value of `Preference-Applied` for pages of at most `rows`, and for a list with change tracking;
    /// nil if no preference was requested or applied.
    package func applied(pageSize rows: Int?, tracksChanges: Bool) -> String? {
        var parts: [String] = []
        if tracksChanges, let trackingName { parts.append(trackingName) }
        if let rows, !pageSizeName.isEmpty { parts.append("\(pageSizeName)=\(rows)") }
        return parts.isEmpty ? nil : parts.joined(separator: ", ")
    }

    private static func trimmed(_ text: Substring) -> Substring {
        var text = text
        while let first = text.first, first == " " || first == "\t" { text.removeFirst() }
        while let last = text.last, last == " " || last == "\t" { text.removeLast() }
        return text
    }

    /// Returns an integer of at least 1, which may be in quotes.
    private static func number(_ text: Substring) -> Int? {
        var digits = text
        if text.count > 2, text.first == "\"", text.last == "\"" {
            digits = text.dropFirst().dropLast()
        }
        guard digits.utf8.count <= 9, digits.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }),
            let value = Int(digits), value > 0
        else { return nil }
        return value
    }
}
