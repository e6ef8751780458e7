// TableAnswers: the responses with rows, pages and links, for either generation of callers.

import TidelineCore

extension StoredRow {
    /// Returns the part of a changed row that a caller without read permission receives.
    ///
    /// Otherwise a PATCH without changes would be a way to read the row.
    func stub(_ id: String) -> StoredRow {
        var writer = JSONWriter()
        writer.raw("{\"id\":")
        writer.string(id)
        writer.raw(",\"updatedAt\":")
        writer.date(Timestamp(microseconds: state.updatedAt))
        writer.raw(",\"version\":")
        writer.string(RowVersion.text(state.version))
        writer.raw(",\"deleted\":")
        writer.bool(state.isDeleted)
        writer.raw("}")
        return StoredRow(json: writer.bytes, state: state)
    }
}

/// A builder of responses with rows, pages and links.
struct TableAnswers {
    let service: TableService

    private static let json = "application/json; charset=utf-8"

    /// The usual number of header fields, including those that are added later.
    private static let headersUsual = 10

    /// Returns the answer with a row, and with its tag and time.
    func row(_ status: Int, _ row: StoredRow?) -> ServerResponse {
        guard let row else { return ServerResponse(status: status) }
        var headers = HTTPFields()
        headers.reserveCapacity(Self.headersUsual)
        headers.append("Content-Type", Self.json)
        headers.append("ETag", RowVersion.tag(row.state.version))
        headers.append("Last-Modified", HTTPDate.text(microseconds: row.state.updatedAt))
        return ServerResponse(status: status, headers: headers, body: row.json)
    }

    /// Returns the headers of every answer with several rows, with the epoch of the clock if it has one.
    func listHeaders(_ clock: TableClock?) -> HTTPFields {
        var headers = HTTPFields()
        headers.reserveCapacity(Self.headersUsual)
        headers.append("Content-Type", Self.json)
        headers.append("Tideline-Epoch", clock?.epoch ?? service.epoch)
        return headers
    }

    /// Returns a page with its count and its links.
    func list(
        _ call: TableCall,
        _ table: String,
        _ page: consuming ListPage,
        _ links: ListLinks,
        _ clock: TableClock?
    ) -> ServerResponse {
        service.metrics.sent(rows: page.rows)
        var writer = JSONWriter(capacity: 0)
        // The bytes are moved, not copied: the page has spare capacity for its end.
        writer.bytes = page.bytes
        page.bytes = []
        var headers = listHeaders(clock)
        if let horizon = clock?.horizonText { headers.append("Tideline-Horizon", horizon) }
        let query = links.next.map(QueryParameters.Parameter.query)
        writer.byte("]")
        switch call.generation {
        case .classic:
            if let count = page.count {
                writer.raw(",\"count\":")
                writer.integer(count)
                writer.byte("}")
            }
            if let query {
                var url = ""
                appendBase(call, to: &url)
                url += "/tables/" + PercentCoding.encode(table) + "?" + query
                headers.append("Link", url + "; rel=next")
            }
        case .datasync:
            writer.raw(",\"count\":")
            if let count = page.count { writer.integer(count) } else { writer.null() }
            writer.raw(",\"nextLink\":")
            if let query {
                let isPath = call.head.asksForPathLinks
                writer.string(
                    isPath ? "/tables/" + PercentCoding.encode(table) + "?" + query : query
                )
            } else {
                writer.null()
            }
            if let delta = links.delta {
                writer.raw(",\"@odata.deltaLink\":")
                writer.string(QueryParameters.Parameter.query(delta))
            }
            writer.byte("}")
        }
        return ServerResponse(status: 200, headers: headers, body: writer.bytes)
    }

    /// Returns the address of a new row.
    func location(_ call: TableCall, _ table: String, _ id: String) -> String {
        var text = ""
        text.reserveCapacity(Self.addressUsual + table.utf8.count + id.utf8.count)
        appendBase(call, to: &text)
        text += "/tables/"
        text += PercentCoding.encode(table)
        text += "/"
        text += PercentCoding.encode(id)
        return text
    }

    /// The usual number of bytes of an address before the names of table and row.
    private static let addressUsual = 64

    /// Appends scheme and host of the server as the caller sees it.
    ///
    /// Forwarded headers are not trusted: behind a proxy the operator sets `publicURL`.
    private func appendBase(_ call: TableCall, to text: inout String) {
        if let url = service.settings.publicURL {
            text += url
        } else if let host = call.head.host, host.utf8.allSatisfy(Self.isHostByte), !host.isEmpty {
            text += service.settings.scheme
            text += "://"
            text += host
        }
    }

    private static func isHostByte(_ byte: UInt8) -> Bool {
        switch ASCII.lower(byte) {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
            UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: ":"),
            UInt8(ascii: "["), UInt8(ascii: "]"):
            true
        default: false
        }
    }
}
