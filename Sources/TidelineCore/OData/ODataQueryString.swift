// ODataQueryString: writes a whole TableQuery as the query part of a URL, in the order of the
// original clients: filter, order, window, selection, count, further parameters, tombstones.

extension ODataWriter {
    /// Returns the query part of a URL without `?`; an empty string for a query of all rows.
    package static func queryString(
        _ query: TableQuery,
        _ dialect: ODataDialect,
        schema: TableSchema? = nil
    ) throws(ODataError) -> String {
        let writer = ODataWriter(dialect, schema: schema)
        var parts: [(name: String, value: String)] = []
        if let filter = query.filter {
            parts.append(("$filter", try writer.filter(filter.expression)))
        }
        if !query.order.isEmpty { parts.append(("$orderby", try writer.orderBy(query.order))) }
        if query.offset > 0 { parts.append(("$skip", String(query.offset))) }
        if let limit = query.limit { parts.append(("$top", String(limit))) }
        if let select = query.select { parts.append(("$select", select.joined(separator: ","))) }
        if query.includesTotalCount {
            parts.append(dialect == .v4 ? ("$count", "true") : ("$inlinecount", "allpages"))
        }
        let names = query.parameters.keys.sorted { ValueOrder.text($0, $1) < 0 }
        for name in names { parts.append((name, query.parameters[name] ?? "")) }
        if query.includesDeleted {
            // The original Node server accepts only this letter case, and Datasync clients send the
            // other.
            parts.append((dialect == .v4 ? "__includedeleted" : "__includeDeleted", "true"))
        }
        return parts.map { name, value in
            percentEncoded(name, keeping: "$,") + "=" + percentEncoded(value)
        }.joined(separator: "&")
    }

    /// Percent-encodes all characters except the unreserved ones of RFC 3986 and those in
    /// `keeping`.
    package static func percentEncoded(_ text: String, keeping: StaticString = "") -> String {
        let kept = keeping.description.utf8
        let digits = Array("0123456789ABCDEF".utf8)
        var result: [UInt8] = []
        for byte in text.utf8 {
            if isUnreserved(byte) || kept.contains(byte) {
                result.append(byte)
            } else {
                result.append(UInt8(ascii: "%"))
                result.append(digits[Int(byte >> 4)])
                result.append(digits[Int(byte & 15)])
            }
        }
        return String(decoding: result, as: UTF8.self)
    }

    private static func isUnreserved(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."),
            UInt8(ascii: "_"), UInt8(ascii: "~"):
            true
        default: false
        }
    }
}
