// WriteFlush: the writes of a transaction as statements that are sent together.
//
// All new rows of a table are one statement, and all changed rows another: arrays as parameters cost PostgreSQL a few
// microseconds a row. The order of tables and rows is fixed, so that servers that write the same rows cannot
// deadlock. Only if a group was rejected because of that order, as by an external foreign key, are its rows written
// in their own order.

import Foundation
import TidelineCore
import TidelinePostgres
import TidelineServerCore

extension WriteState {
    /// Returns the statements, with those for clocks last.
    func statements(inOrder: Bool = false) -> [PostgresStatement] {
        var statements = (inOrder ? runs : sortedRuns).flatMap { run in
            tables[run.table].map { rows(run.keys, of: $0) } ?? []
        }
        statements += logs + keptBases
        if !puts.isEmpty { statements.append(LedgerEntry.put(puts)) }
        statements += departureCounts
        if !audits.isEmpty { statements.append(PostgresAudit.put(audits)) }
        // A row whose entry ended because it was restored may have been deleted again since.
        if !endedCascades.isEmpty { statements.append(ReferenceStatements.remove(endedCascades)) }
        if !cascades.isEmpty { statements.append(ReferenceStatements.put(cascades)) }
        statements += timestamps
        return statements
    }

    // MARK: - Rows

    /// Rows of one table that are written together.
    private struct Run {
        let table: String
        var keys: [RowKey]
    }

    private var sortedRuns: [Run] {
        Dictionary(grouping: touched, by: \.table).sorted { $0.key < $1.key }
            .map { Run(table: $0, keys: $1.sorted { $0.id < $1.id }) }
    }

    /// The runs of adjacent rows of one table with the same kind of change, in the order of the changes.
    private var runs: [Run] {
        var runs: [Run] = []
        var last: [Bool] = []
        for key in order {
            let cell = rows[key]
            let kind = [cell?.stored == nil, cell?.planned == nil]
            if runs.last?.table == key.table, kind == last {
                runs[runs.count - 1].keys.append(key)
            } else {
                runs.append(Run(table: key.table, keys: [key]))
                last = kind
            }
        }
        return runs
    }

    private func rows(_ keys: [RowKey], of table: PostgresTable) -> [PostgresStatement] {
        var (created, changed): ([RowImage], [RowImage]) = ([], [])
        var before: [RowImage] = []
        var gone: [String] = []
        for key in keys {
            guard let cell = rows[key] else { continue }
            switch (cell.stored, cell.planned) {
            case (nil, let image?): created.append(image)
            case (let stored?, let image?):
                changed.append(image)
                before.append(stored)
            case (_?, nil): gone.append(key.id)
            case (nil, nil): break
            }
        }
        var statements: [PostgresStatement] = []
        if !gone.isEmpty {
            statements.append(
                PostgresStatement(
                    "DELETE FROM \(table.quoted) WHERE \"id\" = ANY($1::text[])",
                    [.array(gone.map { .text($0) })]
                )
            )
        }
        if !created.isEmpty {
            statements.append(Self.insert(created, into: table, table.quoted).prepared)
        }
        if !changed.isEmpty {
            let update =
                hasExternalEffects
                ? Self.update(changed, from: before, in: table)
                : Self.update(changed, in: table).prepared
            statements.append(update)
        }
        return statements
    }

    /// Returns the cells of rows, with an array for each column.
    private static func arrays(
        _ images: [RowImage],
        of table: PostgresTable
    ) -> [PostgresParameter] {
        let all = images.map(\.allValues)
        return table.columns.enumerated().map { place, column in
            column.array(all.map { $0[place] })
        }
    }

    private static func types(of table: PostgresTable, from first: Int = 1) -> String {
        table.columns.enumerated().map { "$\($0 + first)::\($1.arrayType)" }
            .joined(separator: ", ")
    }

    static func insert(
        _ images: [RowImage],
        into table: PostgresTable,
        _ relation: String
    ) -> PostgresStatement {
        let names = table.columns.map(\.quoted).joined(separator: ", ")
        return PostgresStatement(
            "INSERT INTO \(relation) (\(names)) SELECT * FROM unnest(\(types(of: table)))",
            arrays(images, of: table)
        )
    }

    private static func update(
        _ images: [RowImage],
        in table: PostgresTable
    ) -> PostgresStatement {
        let names = table.columns.map(\.quoted)
        let sets = names.filter { $0 != idName }.map { "\($0) = x.\($0)" }
        return PostgresStatement(
            """
            UPDATE \(table.quoted) AS t SET \(sets.joined(separator: ", "))
            FROM unnest(\(types(of: table))) AS x(\(names.joined(separator: ", ")))
            WHERE t.\(idName) = x.\(idName)
            """,
            arrays(images, of: table)
        )
    }

    /// Returns an update with only the changed values, so that it keeps changes of external triggers in the same
    /// transaction.
    private static func update(
        _ images: [RowImage],
        from before: [RowImage],
        in table: PostgresTable
    ) -> PostgresStatement {
        let names = table.columns.map(\.quoted)
        let all = zip(before, images).map { (before: $0.allValues, image: $1.allValues) }
        var sets: [String] = []
        var masks: [PostgresParameter] = []
        for (place, name) in names.enumerated() where name != idName {
            let mask = all.map { $0.before[place] != $0.image[place] }
            guard mask.contains(true) else { continue }
            sets.append(
                "\(name) = CASE WHEN x.\"tideline_\(place)\" THEN x.\(name) ELSE t.\(name) END"
            )
            masks.append(.array(mask.map { .text($0 ? "t" : "f") }))
        }
        let places = names.indices.filter { place in
            names[place] != idName && all.contains { $0.before[place] != $0.image[place] }
        }
        let types = places.indices.map { "$\(names.count + 1 + $0)::boolean[]" }
        let columns = names + places.map { "\"tideline_\($0)\"" }
        return PostgresStatement(
            """
            UPDATE \(table.quoted) AS t SET \(sets.joined(separator: ", "))
            FROM unnest(\(([Self.types(of: table)] + types).joined(separator: ", ")))
                AS x(\(columns.joined(separator: ", ")))
            WHERE t.\(idName) = x.\(idName)
            """,
            arrays(images, of: table) + masks
        )
    }

    private static let idName = PostgresName.quoted(SystemColumn.id)

    // MARK: - Log, bases and ledger

    private var logs: [PostgresStatement] {
        Dictionary(grouping: logged) { $0.table.clock }.sorted { $0.key < $1.key }
            .compactMap { _, entries in
                guard let table = entries.first?.table else { return nil }
                let names = table.columns.map(\.quoted).joined(separator: ", ")
                return PostgresStatement(
                    """
                    INSERT INTO \(PostgresName.log(table.name))
                    ("tideline_stamp", "tideline_deleted", \(names))
                    SELECT x.* FROM unnest(
                        $1::bigint[], $2::boolean[], \(Self.types(of: table, from: 3))
                    ) AS x("tideline_stamp", "tideline_deleted", \(names))
                    """,
                    [
                        .array(entries.map { .integer($0.timestamp) }),
                        .array(entries.map { .text($0.isDeleted ? "t" : "f") }),
                    ] + Self.arrays(entries.map(\.image), of: table)
                ).prepared
            }
    }

    private var keptBases: [PostgresStatement] {
        var statements: [PostgresStatement] = []
        if !droppedBases.isEmpty {
            statements.append(
                PostgresStatement(
                    """
                    DELETE FROM tideline.bases
                    WHERE ("table", "id") IN (SELECT * FROM unnest($1::text[], $2::text[]))
                    """,
                    [
                        .array(droppedBases.map { .text($0.table) }),
                        .array(droppedBases.map { .text($0.id) }),
                    ]
                )
            )
        }
        guard !bases.isEmpty else { return statements }
        let rows = bases.map { $0.image.stored(in: $0.table.table) }
        statements.append(
            PostgresStatement(
                """
                INSERT INTO tideline.bases ("table", "id", "version", "row")
                SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[])
                """,
                [
                    .array(bases.map { .text($0.table.clock) }),
                    .array(bases.map { .text($0.image.id) }),
                    .array(bases.map { .integer($0.image.version) }),
                    .array(rows.map { .text(String(decoding: $0.json, as: UTF8.self)) }),
                ]
            ).prepared
        )
        return statements
    }

    /// Removes the oldest versions of the rows that got a new one.
    func dropOldBases(_ versionsMax: Int) -> [PostgresStatement] {
        guard !bases.isEmpty else { return [] }
        let keys = Set(bases.map { RowKey(table: $0.table.clock, id: $0.image.id) })
        return [
            PostgresStatement(
                """
                DELETE FROM tideline.bases AS b USING (
                    SELECT "table", "id", "version", row_number() OVER (
                        PARTITION BY "table", "id" ORDER BY "version" DESC
                    ) AS place
                    FROM tideline.bases
                    WHERE ("table", "id") IN (SELECT * FROM unnest($1::text[], $2::text[]))
                ) AS old
                WHERE b."table" = old."table" AND b."id" = old."id"
                AND b."version" = old."version" AND old.place > $3
                """,
                [
                    .array(keys.map { .text($0.table) }), .array(keys.map { .text($0.id) }),
                    .value(.integer(Int64(versionsMax))),
                ]
            )
        ]
    }

    private var departureCounts: [PostgresStatement] {
        let counts = departures.sorted {
            ($0.key.clock, $0.key.millisecond) < ($1.key.clock, $1.key.millisecond)
        }
        guard !counts.isEmpty else { return [] }
        return [
            PostgresStatement(
                """
                INSERT INTO tideline.departures AS d ("table", "millisecond", "count", "last")
                SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[])
                ON CONFLICT ("table", "millisecond") DO UPDATE
                SET "count" = d."count" + excluded."count", "last" = excluded."last"
                """,
                [
                    .array(counts.map { .text($0.key.clock) }),
                    .array(counts.map { .integer($0.key.millisecond) }),
                    .array(counts.map { .integer($0.value) }),
                    .array(counts.map { .integer(clocks[$0.key.clock]?.timestamp ?? 0) }),
                ]
            ).prepared
        ]
    }

    private var timestamps: [PostgresStatement] {
        let keys = moved.sorted()
        guard !keys.isEmpty else { return [] }
        return [
            PostgresStatement(
                """
                UPDATE tideline.clocks AS c SET "stamp" = x."stamp"
                FROM unnest($1::text[], $2::bigint[]) AS x("table", "stamp")
                WHERE c."table" = x."table"
                """,
                [
                    .array(keys.map { .text($0) }),
                    .array(keys.map { .integer(clocks[$0]?.timestamp ?? 0) }),
                ]
            ).prepared
        ]
    }
}
