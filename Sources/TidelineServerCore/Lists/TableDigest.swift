// TableDigest: two sides find their differences with a few small responses.

package import TidelineCore

/// A request for the hashes of a table's rows that are not deleted.
package struct DigestRequest: Sendable {
    package var caller = ReadCaller.unknown
    /// The visibility filter of the caller; nil for all rows.
    package var view: QueryExpression?
    package var filter: QueryExpression?
    /// The id after which the range begins, in byte order; nil for no lower bound.
    package var after: String?
    /// The last id of the range.
    package var upTo: String?
    package var rangesMax = 16

    package init() {}
}

/// The count and the hashes of the rows that a caller sees, by ranges of their ids.
package struct TableDigest: Hashable, Sendable {
    /// A range of rows, in the byte order of their ids.
    package struct Range: Hashable, Sendable {
        /// The id before the range; nil for no lower bound.
        package var after: String?
        /// The last id of the range; nil for no upper bound.
        package var upTo: String?
        package var count: Int64
        /// The hash in lower-case hexadecimal digits.
        package var digest: String
    }

    package var count: Int64
    package var digest: String
    /// The ranges, at least one, without gaps between them.
    package var ranges: [Range]
    /// The table clock in the snapshot of the digest; nil if it has to be read separately.
    package var clock: TableClock?

    func write(to writer: inout JSONWriter) {
        writer.raw("{")
        Self.write(count, digest, &writer)
        writer.raw(",\"ranges\":[")
        for (place, range) in ranges.enumerated() {
            writer.raw(place == 0 ? "{\"after\":" : ",{\"after\":")
            if let after = range.after { writer.string(after) } else { writer.null() }
            writer.raw(",\"upTo\":")
            if let upTo = range.upTo { writer.string(upTo) } else { writer.null() }
            writer.raw(",")
            Self.write(range.count, range.digest, &writer)
            writer.raw("}")
        }
        writer.raw("]}")
    }

    private static func write(_ count: Int64, _ digest: String, _ writer: inout JSONWriter) {
        writer.raw("\"count\":")
        writer.integer(count)
        writer.raw(",\"digest\":")
        writer.string(digest)
    }
}

/// A builder of a digest, which hashes rows in the byte order of their ids: `id`, 0x00, `version`, 0x0A of
/// each.
package struct DigestBuilder {
    private let request: DigestRequest
    private let total: Int64
    private var all = SHA256()
    private var part = SHA256()
    private var lines: [UInt8] = []
    private var count: Int64 = 0
    private var partCount: Int64 = 0
    private var ranges: [TableDigest.Range] = []
    private var after: String?

    /// `total` is the number of rows that will be added.
    package init(_ request: DigestRequest, total: Int64) {
        self.request = request
        self.total = total
        after = request.after
        lines.reserveCapacity(Self.linesMax + 1024)
    }

    private static let linesMax = 8192

    /// Adds the next row.
    package mutating func take(id: UnsafeBufferPointer<UInt8>, version: Int64) {
        lines.append(contentsOf: id)
        lines.append(0)
        let start = lines.count
        lines.append(contentsOf: repeatElement(0, count: RowVersion.size))
        lines.withUnsafeMutableBufferPointer { lines in
            if let base = lines.baseAddress { RowVersion.write(version, to: base + start) }
        }
        lines.append(0x0A)
        count += 1
        partCount += 1
        if lines.count > Self.linesMax { mix() }
        // The last range ends at the bound of the request.
        let parts = Int64(ranges.count + 1)
        guard parts < request.rangesMax, count < total, count >= bound(parts) else { return }
        endRange(upTo: String(decoding: id, as: UTF8.self))
    }

    /// Returns the number of rows in the first ranges.
    private func bound(_ ranges: Int64) -> Int64 {
        let (whole, rest) = total.quotientAndRemainder(dividingBy: Int64(request.rangesMax))
        return max(ranges, whole * ranges + min(rest, ranges))
    }

    private mutating func mix() {
        all.update(lines)
        part.update(lines)
        lines.removeAll(keepingCapacity: true)
    }

    private mutating func endRange(upTo id: String?) {
        mix()
        ranges.append(
            TableDigest.Range(
                after: after,
                upTo: id,
                count: partCount,
                digest: part.finishHex()
            )
        )
        part = SHA256()
        partCount = 0
        after = id
    }

    /// Returns the digest after the last row.
    package mutating func finish() -> TableDigest {
        endRange(upTo: request.upTo)
        return TableDigest(count: count, digest: all.finishHex(), ranges: ranges)
    }
}
