// PulledPage: the response to a list request.
//
// It reads the lists of all server generations: a bare array (2.x), `{"results","count"}` (2.x with
// a count), and `{"items","count","nextLink"}` (3.x and the current toolkit).

import Foundation
package import TidelineCore

/// A page of a list, read from the bytes of a response in one pass.
package struct PulledPage: Sendable {
    /// The rows; empty if they are in ``cells``.
    package var rows: [Row] = []
    /// The rows as cells, if the page has uniform rows that are only stored; nil otherwise.
    package private(set) var cells: PageCells?
    package var rowCount: Int { cells?.rowCount ?? rows.count }
    /// Whether the page has a row with an id and a version, as the rows of all servers have.
    package var hasServersRow: Bool {
        cells?.hasVersion ?? rows.contains { !$0.id.isEmpty && $0.version != nil }
    }
    /// The size of the response in bytes.
    package private(set) var byteCount = 0
    package var count: Int?
    package var nextLink: String?
    /// `@odata.deltaLink`: the link to the changes made after this list.
    package var deltaLink: String?
    /// `Preference-Applied`: whether the server tracks changes that are made after this list.
    package var tracksChanges = false
    /// `Tideline-Horizon`: the retention horizon, which is the time before which tombstones are
    /// gone.
    package var horizon: String?
    /// `Tideline-Epoch`: the identity of the database's history.
    package var epoch: String?

    /// Reads the body of a response; returns nil if the body is not a page.
    ///
    /// Set `asCells` to read the rows as cells, if possible.
    package init?(_ response: TransportResponse, schema: TableSchema?, asCells: Bool = false) {
        let body = response.body
        let read = body.withUnsafeBufferPointer { bytes -> PulledPage? in
            var reader = JSONReader(bytes, outside: Self.levelsAroundRows)
            var page = PulledPage()
            page.byteCount = bytes.count
            do {
                try page.read(&reader, schema, asCells ? body : nil)
                try reader.end()
            } catch {
                return nil
            }
            return page
        }
        guard let read else { return nil }
        self = read
        epoch = response.headers["Tideline-Epoch"]
        horizon = response.headers["Tideline-Horizon"]
        tracksChanges = Self.tracksChanges(response.headers["Preference-Applied"] ?? "")
        if nextLink == nil, let header = response.headers["Link"] {
            nextLink = Self.nextLink(header)
        }
    }

    private init() {}

    /// A page without rows.
    static let empty = PulledPage()

    /// Reads the page; `bytes` is nil unless the rows should be read as cells.
    private mutating func read(
        _ reader: inout JSONReader,
        _ schema: TableSchema?,
        _ bytes: [UInt8]?
    ) throws {
        switch try reader.value() {
        case .array:
            try readRows(&reader, schema, bytes)
        case .object:
            try reader.beginObject()
            var names = MemberNames()
            var hasItems = false
            while let name = try reader.nextMember() {
                try names.insert(name, reader)
                switch reader.text(name) {
                case "items", "results", "value":
                    guard cells == nil else { throw reader.failure("the page has two lists") }
                    try readRows(&reader, schema, bytes)
                    hasItems = true
                case "count":
                    let token = try reader.value()
                    if case .number(let span) = token {
                        count = reader.integer(span).map { Int($0) }
                    }
                    try reader.skip(token)
                case "nextLink": nextLink = try Self.text(&reader)
                case "@odata.deltaLink": deltaLink = try Self.text(&reader)
                default:
                    try reader.skip(try reader.value())
                }
            }
            guard hasItems else { throw reader.failure("the page has no items") }
        case .null, .bool, .number, .string:
            throw reader.failure("a page is expected")
        }
    }

    private static func text(_ reader: inout JSONReader) throws -> String? {
        let token = try reader.value()
        try reader.skip(token)
        if case .string(let span) = token { return reader.text(span) }
        return nil
    }

    private static func tracksChanges(_ header: String) -> Bool {
        header.split(whereSeparator: { $0 == "," || $0 == ";" }).contains {
            let name = $0.trimmingCharacters(in: .whitespaces).lowercased()
            return name == "odata.track-changes" || name == "track-changes"
        }
    }

    private mutating func readRows(
        _ reader: inout JSONReader,
        _ schema: TableSchema?,
        _ bytes: [UInt8]?
    ) throws {
        if let bytes, let schema, rows.isEmpty {
            var ahead = reader
            if let cells = PageCells(&ahead, of: bytes, schema: schema) {
                reader = ahead
                self.cells = cells
                return
            }
        }
        var decoder = JSONRowReader(schema: schema)
        try reader.beginArray()
        while try reader.nextElement() { rows.append(try decoder.row(&reader)) }
    }

    /// Returns the next link of a `Link` header.
    ///
    /// The header contains `<URL>; rel="next"`, possibly among other links (RFC 8288). The original
    /// servers send `URL; rel=next` without brackets.
    package static func nextLink(_ header: String) -> String? {
        guard header.contains("<") else {
            guard let end = header.lastIndex(of: ";"), isNext(header[header.index(after: end)...])
            else { return nil }
            return header[..<end].trimmingCharacters(in: .whitespaces)
        }
        var rest = Substring(header)
        while let open = rest.firstIndex(of: "<"), let close = rest[open...].firstIndex(of: ">") {
            let tail = rest[rest.index(after: close)...]
            let parameters = tail[..<(tail.firstIndex(of: "<") ?? tail.endIndex)]
            if parameters.split(whereSeparator: { $0 == ";" || $0 == "," }).contains(where: isNext)
            {
                return String(rest[rest.index(after: open)..<close])
            }
            rest = tail.drop { $0 != "<" }
        }
        return nil
    }

    /// Returns whether a link parameter is `rel` and has `next` among its values.
    private static func isNext(_ parameter: Substring) -> Bool {
        let parts = parameter.split(separator: "=", maxSplits: 1)
        guard parts.count == 2, parts[0].trimmingCharacters(in: .whitespaces).lowercased() == "rel"
        else { return false }
        return parts[1].lowercased().split { $0.isWhitespace || $0 == "\"" }.contains("next")
    }

    /// The number of JSON levels around the rows: the list, and the object that contains it.
    private static let levelsAroundRows = 2

    /// Returns the rows of a page that was read as cells.
    static func rows(of cells: PageCells, schema: TableSchema?) throws -> [Row] {
        try cells.rows { bytes in
            var page = PulledPage()
            var reader = JSONReader(bytes, outside: levelsAroundRows)
            try page.read(&reader, schema, nil)
            return page.rows
        }
    }

    /// The properties of the page that the pull machine uses.
    package var summary: PageSummary {
        var latest = cells?.latest.map { Timestamp(microseconds: $0 &* 1000).date }
        var updatedAt = RowMember(SystemColumn.updatedAt)
        for row in rows {
            guard case .date(let date) = updatedAt.value(in: row) else { continue }
            if latest.map({ date > $0 }) ?? true { latest = date }
        }
        return PageSummary(
            rowCount: rowCount,
            latest: latest.map { Timestamp($0).text },
            nextLink: nextLink,
            deltaLink: deltaLink,
            tracksChanges: tracksChanges,
            horizon: horizon,
            epoch: epoch
        )
    }
}
