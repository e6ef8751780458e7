// DigestRead: reads digests.

import TidelineCore
import TidelineSQLite
import TidelineServerCore

/// A read of counts and hashes of the rows that a caller sees, from one snapshot of the table.
struct DigestRead {
    private let table: SQLiteTable
    private let request: DigestRequest

    init(_ request: DigestRequest, _ table: SQLiteTable) {
        self.table = table
        self.request = request
    }

    /// The string under which the cost of the statement is recorded.
    var knownText: String { "digest " + statement.text(for: .sqlite) }

    private var statement: SQL { "SELECT \"id\", \"version\"\(rows) ORDER BY \"id\"" }

    func run(_ database: Database) throws -> TableDigest {
        try database.snapshot {
            let count: SQL = "SELECT count(*)\(rows)"
            let total = try database.integer(count.text(for: .sqlite), count.bindings) ?? 0
            var builder = DigestBuilder(request, total: total)
            let sql = statement
            let statement = try database.prepare(sql.text(for: .sqlite))
            defer { statement.reset() }
            try statement.bind(sql.bindings)
            while try statement.step() {
                builder.take(id: statement.utf8(0), version: statement.integer(1))
            }
            return builder.finish()
        }
    }

    private var rows: SQL {
        let renderer = FilterRenderer(
            schema: table.table.definition.schema,
            dateUnit: .microseconds
        )
        var sql: SQL = " FROM \(Identifier(table.name)) WHERE \"deleted\" = 0"
        if let view = request.view { sql.append(" AND (\(renderer.condition(view)))") }
        if let after = request.after { sql.append(" AND \"id\" > \(.text(after))") }
        if let upTo = request.upTo { sql.append(" AND \"id\" <= \(.text(upTo))") }
        if let filter = request.filter {
            let filter = VersionLiterals.replace(in: filter)
            sql.append(" AND (\(renderer.condition(filter)))")
        }
        return sql
    }
}
