// Report: the result of a command, for people and for scripts. Pure.

import TidelineCore

/// A report: names with values, in a stable order.
package struct Report: Hashable, Sendable {
    package enum Item: Hashable, Sendable {
        case text(String)
        case integer(Int64)
        case flag(Bool)
        case none
        case report(Report)
        case texts([String])
        /// The rows of a table, all with the same names.
        case list([Report])

        package init(_ text: String?) { self = text.map(Item.text) ?? .none }

        /// Returns a time in microseconds since 1970; nothing for 0, which means no time.
        package static func time(_ microseconds: Int64) -> Item {
            microseconds == 0 ? .none : .text(Timestamp(microseconds: microseconds).text)
        }
    }

    fileprivate struct Entry: Hashable, Sendable {
        var name: String
        var item: Item
    }

    private var entries: [Entry] = []

    package init(_ entries: KeyValuePairs<String, Item> = [:]) {
        for (name, item) in entries { self[name] = item }
    }

    package subscript(_ name: String) -> Item? {
        get { entries.first { $0.name == name }?.item }
        set {
            if let place = entries.firstIndex(where: { $0.name == name }) {
                if let newValue {
                    entries[place].item = newValue
                } else {
                    entries.remove(at: place)
                }
            } else if let newValue {
                entries.append(Entry(name: name, item: newValue))
            }
        }
    }

    // MARK: - For scripts

    /// The report as one JSON object on one line.
    package var json: String {
        var writer = JSONWriter()
        write(&writer)
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    private func write(_ writer: inout JSONWriter) {
        writer.byte("{")
        for (number, entry) in entries.enumerated() {
            if number > 0 { writer.byte(",") }
            writer.string(entry.name)
            writer.byte(":")
            switch entry.item {
            case .text(let text): writer.string(text)
            case .integer(let number): writer.integer(number)
            case .flag(let flag): writer.bool(flag)
            case .none: writer.null()
            case .report(let report): report.write(&writer)
            case .texts(let texts):
                writer.byte("[")
                for (number, text) in texts.enumerated() {
                    if number > 0 { writer.byte(",") }
                    writer.string(text)
                }
                writer.byte("]")
            case .list(let reports):
                writer.byte("[")
                for (number, report) in reports.enumerated() {
                    if number > 0 { writer.byte(",") }
                    report.write(&writer)
                }
                writer.byte("]")
            }
        }
        writer.byte("}")
    }

    // MARK: - For people

    /// The report as text: a line for each name, and a table for each list.
    package var text: String { lines.joined(separator: "\n") }

    private var lines: [String] {
        let width = entries.filter(\.isBrief).map(\.name.count).max() ?? 0
        return entries.flatMap { entry in
            switch entry.item {
            case .report(let report): ["", entry.name] + report.lines.map { "  " + $0 }
            case .list(let reports) where !reports.isEmpty:
                ["", entry.name] + Self.table(reports).map { "  " + $0 }
            case .text, .integer, .flag, .none, .texts, .list:
                [Self.padded(entry.name, width) + "  " + entry.item.shown]
            }
        }
    }

    private static func table(_ reports: [Report]) -> [String] {
        let names = reports[0].entries.map(\.name)
        let rows = [names] + reports.map { $0.entries.map(\.item.shown) }
        let widths = names.indices.map { place in
            rows.map { $0.indices.contains(place) ? $0[place].count : 0 }.max() ?? 0
        }
        return rows.map { row in
            let cells = zip(row, widths).map { padded($0, $1) }
            let line = cells.joined(separator: "  ")
            return String(line.reversed().drop { $0 == " " }.reversed())
        }
    }

    private static func padded(_ text: String, _ width: Int) -> String {
        text + String(repeating: " ", count: max(0, width - text.count))
    }
}

extension Report.Entry {
    /// Whether the item fits on one line.
    fileprivate var isBrief: Bool {
        switch item {
        case .report: false
        case .list(let reports): reports.isEmpty
        case .text, .integer, .flag, .none, .texts: true
        }
    }
}

extension Report.Item {
    /// The string on one line, without control characters for a terminal.
    fileprivate var shown: String {
        switch self {
        case .text(let text): Self.plain(text)
        case .integer(let number): String(number)
        case .flag(let flag): flag ? "yes" : "no"
        case .none: "-"
        case .texts(let texts): texts.map(Self.plain).joined(separator: ",")
        case .report, .list: "none"
        }
    }

    private static func plain(_ text: String) -> String {
        var plain = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .unassigned:
                plain.append("\u{FFFD}")
            default: plain.append(scalar)
            }
        }
        return String(plain)
    }
}
