// PostgresDigestRead: reads digests.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

/// A read of counts and hashes of the rows that a caller sees, from one snapshot.
struct PostgresDigestRead {
    private let table: PostgresTable
    private let request: DigestRequest
    private let exact: QueryExpression?
    private let rest: RowProgram?
    /// A condition on the rows that `rest` may match; nil for all rows.
    private let candidates: SQL?

    init(_ request: DigestRequest, _ table: PostgresTable) {
        self.table = table
        self.request = request
        let filter = request.filter.map { VersionLiterals.replace(in: $0) }
        let parts = [request.view, filter].compactMap { $0 }
        let split = table.split.split(
            parts.count > 1 ? QueryExpression(.all(parts)) : parts.first
        )
        exact = split.exact
        rest = split.rest.map { RowProgram($0, isCondition: true, of: table.table) }
        candidates = split.rest.flatMap { table.renderer.candidates(for: $0) }
    }

    func run(_ read: PostgresRead) throws -> TableDigest {
        try read.transaction([table.clockStatement]) { results in
            let clock = try table.clock(results[0], read)
            let watch = read.watch
            var builder = DigestBuilder(request, total: try total(read, watch))
            try forEachRow(read, watch) { id, version in builder.take(id: id, version: version) }
            if watch.isOver { try read.check() }
            var digest = builder.finish()
            digest.clock = clock
            return digest
        }
    }

    private func total(_ read: PostgresRead, _ watch: EvaluationWatch) throws -> Int64 {
        if rest == nil {
            let count: SQL = "SELECT count(*)\(rows)"
            return try read.connection.run(PostgresStatement(count)).integer(0, 0)
        }
        var count: Int64 = 0
        try forEachRow(read, watch) { _, _ in count += 1 }
        return count
    }

    private func forEachRow(
        _ read: PostgresRead,
        _ watch: EvaluationWatch,
        _ body: (UnsafeBufferPointer<UInt8>, Int64) -> Void
    ) throws {
        var cells = "\"id\", \"version\""
        if rest != nil { cells += ", " + table.cells() }
        try read.forEach("SELECT \(SQL(verbatim: cells))\(rows) ORDER BY \"id\"") { result, row in
            if let rest, !rest.holds(table.image(result, row, from: 2), watch) { return true }
            body(result.bytes(row, 0), result.integer(row, 1))
            return true
        }
    }

    private var rows: SQL {
        var sql: SQL = " FROM \(Identifier(table.name)) WHERE NOT \"deleted\""
        if let after = request.after { sql.append(" AND \"id\" > \(.text(after))") }
        if let upTo = request.upTo { sql.append(" AND \"id\" <= \(.text(upTo))") }
        if let exact { sql.append(" AND (\(table.renderer.condition(exact)))") }
        if let candidates { sql.append(" AND (\(candidates))") }
        return sql
    }
}
