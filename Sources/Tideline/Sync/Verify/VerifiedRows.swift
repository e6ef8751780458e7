// VerifiedRows: the ids and versions of a query's rows on the device, and their hashes.

import TidelineCore

/// The id of a row, with the version that the server sent.
struct VerifiedRow: Hashable {
    var id: String
    var version: String?
    /// Whether the row's values may differ from the values that the server sent with the version.
    var isUncertain = false
    /// Whether the row was pulled before the server was restored, and has not been checked since
    /// then.
    var isOfFormerEpoch = false
    /// Whether only queries of other accounts hold the row, so that the server may hide it from
    /// this account.
    var isOfOtherAccount = false
}

/// The rows of a range, in the byte order of their ids.
struct VerifiedRows {
    private(set) var rows: [VerifiedRow] = []
    /// The ids of rows whose local state is not compared, because they have pending operations or
    /// are lost.
    private(set) var pending: Set<ItemKey> = []
    /// The ids of rows that a restored server has lost; they are also in `pending`.
    private(set) var lost: Set<ItemKey> = []

    /// Reads the rows of a range that a query holds.
    ///
    /// If a row has pending operations, the last state that the server sent is compared.
    init(_ reader: QueueReader, _ table: String, bit: Int64?, _ range: IDRange) throws {
        let records = try reader.lostRecords.all(in: table).filter { range.contains($0.itemID) }
        lost = Set(records.map { ItemKey($0.itemID) })
        pending = try reader.pendingIDs(table).union(lost)
        var query = TableQuery(filter: range.filter)
        query.order = [SortKey(column: SystemColumn.id)]
        query.select = [SystemColumn.id, SystemColumn.version, MembershipMask.name]
        let others = try bit == nil ? reader.membership.otherAccountBits(table) : 0
        let uncertain = Set(try reader.store.uncertainRows(range.filter, in: table).ids)
        for row in try reader.store.rows(query, in: table) {
            guard !pending.contains(ItemKey(row.id)) else { continue }
            let mask = MembershipMask.bits(row) ?? 0
            if let bit, mask & bit == 0 { continue }
            rows.append(
                VerifiedRow(
                    id: row.id,
                    version: row.version,
                    isUncertain: uncertain.contains(row.id),
                    isOfFormerEpoch: mask & MembershipMask.former != 0,
                    isOfOtherAccount: mask & others != 0
                        && mask & ~(others | MembershipMask.former) == 0
                )
            )
        }
        for record in records {
            // The server's state of a lost row is compared, if the query holds it.
            guard let server = record.server?.row,
                let stored = try reader.membership.maskedRow(record.itemID, in: table)
            else { continue }
            if let bit, (MembershipMask.bits(stored) ?? 0) & bit == 0 { continue }
            rows.append(VerifiedRow(id: record.itemID, version: server.version))
        }
        guard !pending.isEmpty else { return }
        // The server's state of a row is stored with the row's first operation.
        var met: Set<ItemKey> = []
        for operation in try reader.operations() where operation.table == table {
            guard range.contains(operation.itemID), met.insert(ItemKey(operation.itemID)).inserted,
                let known = operation.basis.lastKnown?.row
            else { continue }
            rows.append(VerifiedRow(id: operation.itemID, version: known.version))
        }
        rows.sort { $0.id.utf8.lexicographicallyPrecedes($1.id.utf8) }
    }

    /// Returns the hash of the rows in a part of the range.
    ///
    /// If a row is uncertain, the hash differs from any hash that a server returns, so that the
    /// rows are fetched and compared.
    func digest(_ range: IDRange) -> RangeDigest {
        var hash = SHA256()
        var count = 0
        for row in rows where range.contains(row.id) {
            var bytes = Array(row.id.utf8)
            bytes.append(0)
            bytes += (row.version ?? "").utf8
            bytes.append(0x0A)
            if row.isUncertain { bytes.append(0) }
            hash.update(bytes)
            count += 1
        }
        return RangeDigest(range: range, count: count, digest: hash.finishHex())
    }
}

extension IDRange {
    func contains(_ id: String) -> Bool {
        if let after, !after.utf8.lexicographicallyPrecedes(id.utf8) { return false }
        if let upTo, upTo.utf8.lexicographicallyPrecedes(id.utf8) { return false }
        return true
    }

    /// The filter for the rows of the range; nil if the range has all rows.
    var filter: Filter? {
        let bounds: [QueryExpression] = [
            after.map { Self.compare(.gt, $0) }, upTo.map { Self.compare(.le, $0) },
        ].compactMap { $0 }
        guard let first = bounds.first else { return nil }
        return Filter(bounds.count == 1 ? first : QueryExpression(.all(bounds)))
    }

    private static func compare(_ comparison: Comparison, _ id: String) -> QueryExpression {
        .compare(
            comparison,
            QueryExpression(.field(SystemColumn.id)),
            QueryExpression(.value(.string(id)))
        )
    }
}

/// The response to a request for digests.
struct DigestPage {
    var count: Int
    var digest: String
    var ranges: [RangeDigest] = []

    /// Returns nil if the body does not contain digests.
    init?(_ response: TransportResponse) {
        guard response.status == 200, let row = RowText.row(response.body, nil),
            case .integer(let count) = row["count"], let digest = row["digest"]?.text,
            case .json(let list) = row["ranges"], let ranges = try? list.decode([Range].self)
        else { return nil }
        self.count = Int(clamping: count)
        self.digest = digest
        self.ranges = ranges.map {
            RangeDigest(
                range: IDRange(after: $0.after, upTo: $0.upTo),
                count: $0.count,
                digest: $0.digest
            )
        }
    }

    private struct Range: Decodable {
        var after: String?
        var upTo: String?
        var count: Int
        var digest: String
    }
}
