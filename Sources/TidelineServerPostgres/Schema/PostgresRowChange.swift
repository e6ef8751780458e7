// PostgresRowChange: performs schema steps.
//
// A row counts as changed if a device that has it would show values other than the server's. It moves to the end of the
// order of `updatedAt`, so that devices pull it again.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

/// The schema steps of one table, which give the changed rows a new version.
struct PostgresRowChange {
    let script: SchemaScript
    let table: String
    /// Returns the time in microseconds since 1970.
    let now: () throws -> Int64

    private var connection: PostgresConnection { script.connection }
    private var relation: String { PostgresName.quoted(table) }

    func carryOut(_ steps: [SchemaStep]) throws {
        for step in steps {
            switch step.kind {
            case .createTable, .keepTable, .adoptTable, .removeOwnerClocks, .restoreTable,
                .forgetTable,
                .restoreColumn,
                .restoreTriggers:
                break
            case .addColumn(let column, let rows):
                try script.execute(PostgresSchema.add(column, to: table))
                if rows > 0 { try flag("TRUE") }
            case .renameColumn(let old, let column):
                try script.execute(PostgresSchema.rename(old, to: column.name, in: table))
            case .dropColumn(let column, _):
                try script.execute(PostgresSchema.drop(column.name, from: table))
            case .convert(let old, let new, let values, _):
                try convert(old, new, hasValues: values > 0)
            case .fillNulls(let column, _): try fillNulls(column)
            }
        }
        guard steps.contains(where: \.flagsRows) else { return }
        try giveNewVersions(
            from: "\(relation) JOIN pg_temp.tideline_changed USING (\"id\")",
            count: "pg_temp.tideline_changed"
        )
        try script.execute("DROP TABLE pg_temp.tideline_changed")
    }

    /// Gives all rows of an adopted table, including tombstones, their first versions.
    func giveFirstVersions() throws {
        try giveNewVersions(from: relation, count: relation)
    }

    /// Assigns timestamps to the rows in order, after all assigned ones and before the wall clock if possible.
    private func giveNewVersions(from rows: String, count: String) throws {
        let name = SQLValue.text(table.lowercased())
        let last = try connection.run(PostgresSchema.lockClock, [name]).integer(0, 0)
        let count =
            try script.isDry
            ? 0 : connection.run("SELECT count(*) FROM \(count)").integer(0, 0)
        let spacing = PostgresClock.spacing
        let first = max(last, try now() - count * spacing)
        try script.runOnRows(
            """
            UPDATE \(relation) AS t
            SET "version" = n.stamp, "updatedAt" = tideline.instant(n.stamp)
            FROM (
                SELECT "id", $1::bigint
                    + $2::bigint * row_number() OVER (ORDER BY "updatedAt", "id") AS stamp
                FROM \(rows)
            ) AS n
            WHERE t."id" = n."id"
            """,
            [.integer(first), .integer(spacing)]
        )
        try script.run(PostgresSchema.putTimestamp, [name, .integer(first + count * spacing)])
    }

    // MARK: - Values

    private func fillNulls(_ column: ColumnDefinition) throws {
        let form = PostgresColumn(column)
        try flag("\(form.quoted) IS NULL")
        try script.runOnRows(
            """
            UPDATE \(relation) SET \(form.quoted) = \(form.constant(column.storedDefault))
            WHERE \(form.quoted) IS NULL
            """
        )
    }

    /// The number of rows that are in memory at the same time.
    private static let chunkRows = 1000
    /// The name of a column while its values are converted; no declared column has that name.
    private static let newColumn = PostgresName.quoted("__new")

    private func convert(
        _ old: ColumnDefinition,
        _ new: ColumnDefinition,
        hasValues: Bool
    ) throws {
        let (from, to) = (PostgresColumn(old), PostgresColumn(new))
        // Another program may have indexes and rules on the column.
        let isInPlace = from.declaration == to.declaration
        let target = isInPlace ? from.quoted : Self.newColumn
        if !isInPlace {
            try script.execute(
                "ALTER TABLE \(relation) ADD COLUMN \(Self.newColumn) \(to.declaration)"
            )
        }
        if hasValues {
            try makeFlags()
            script.note("The values of \(from.quoted) are converted and written row by row.")
            if !script.isDry {
                try convertValues(from, to, target, ColumnConversion(old, to: new))
            }
        }
        guard !isInPlace else { return }
        if !old.isNullable {
            try script.runOnRows(
                "UPDATE \(relation) SET \(target) = \(to.constant(to.filler)) "
                    + "WHERE \(target) IS NULL"
            )
        }
        try script.execute("ALTER TABLE \(relation) DROP COLUMN \(from.quoted)")
        try script.execute(
            "ALTER TABLE \(relation) RENAME COLUMN \(Self.newColumn) TO \(to.quoted)"
        )
        try script.execute(
            "ALTER TABLE \(relation) ALTER COLUMN \(to.quoted) "
                + "SET DEFAULT \(to.constant(new.storedDefault))"
        )
    }

    private func convertValues(
        _ from: PostgresColumn,
        _ to: PostgresColumn,
        _ target: String,
        _ conversion: ColumnConversion
    ) throws {
        try connection.run(
            """
            DECLARE tideline_values NO SCROLL CURSOR FOR
            SELECT "id", NOT "deleted", \(from.selected()) FROM \(relation)
            WHERE \(from.quoted) IS NOT NULL
            """
        )
        let isInPlace = target == from.quoted
        while true {
            let chunk = try connection.run("FETCH FORWARD \(Self.chunkRows) FROM tideline_values")
            guard chunk.count > 0 else { break }
            var written: [(id: SQLValue, value: SQLValue)] = []
            var changed: [SQLValue] = []
            for row in 0..<chunk.count {
                let id = SQLValue.text(chunk.text(row, 0))
                let value = from.value(chunk, row, 2)
                let converted = conversion.convert(value)
                if !isInPlace || converted != value { written.append((id, converted ?? to.filler)) }
                if chunk.boolean(row, 1), !conversion.isSame(value, converted) {
                    changed.append(id)
                }
            }
            try connection.run(
                PostgresStatement(
                    """
                    UPDATE \(relation) AS t SET \(target) = x.value
                    FROM unnest($1::text[], $2::\(to.arrayType)) AS x(id, value)
                    WHERE t."id" = x.id
                    """,
                    [.array(written.map(\.id)), to.array(written.map(\.value))]
                )
            )
            try connection.run(
                PostgresStatement(
                    "INSERT INTO pg_temp.tideline_changed SELECT * FROM unnest($1::text[]) "
                        + "ON CONFLICT DO NOTHING",
                    [.array(changed)]
                )
            )
        }
        try connection.run("CLOSE tideline_values")
    }

    // MARK: - Changed rows

    private func makeFlags() throws {
        try script.execute(
            """
            CREATE TEMPORARY TABLE IF NOT EXISTS tideline_changed (
                "id" text COLLATE "C" PRIMARY KEY
            ) ON COMMIT DROP
            """
        )
    }

    /// Records which rows get new versions; tombstones do not, because no device has them.
    private func flag(_ condition: String) throws {
        try makeFlags()
        try script.runOnRows(
            """
            INSERT INTO pg_temp.tideline_changed
            SELECT "id" FROM \(relation) WHERE NOT "deleted" AND (\(condition))
            ON CONFLICT DO NOTHING
            """
        )
    }
}

extension SchemaStep {
    /// Whether the step gives rows new versions.
    fileprivate var flagsRows: Bool {
        switch kind {
        case .addColumn(_, let rows): rows > 0
        case .convert(_, _, let values, _): values > 0
        case .fillNulls: true
        case .createTable, .adoptTable, .renameColumn, .dropColumn, .removeOwnerClocks, .keepTable,
            .restoreTable, .forgetTable,
            .restoreColumn, .restoreTriggers:
            false
        }
    }
}
