// NamedOwnerClocks: the statements that make, lock and read the owners' clocks of a transaction.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

/// The owners' clocks that a transaction is about.
struct NamedOwnerClocks {
    /// Makes those that are not there; sorted, like every lock.
    let make: PostgresStatement
    /// Finds those that are not there.
    let findUnmade: PostgresStatement
    /// Locks and reads them, with those of the rows that are there.
    let lock: PostgresStatement

    /// Nil when no table has clocks of owners; with `held` those that somebody else has are left out,
    /// and those that are remembered there are not made.
    init?(
        _ jobs: [PostgresJob],
        _ tables: [String: PostgresTable],
        _ ids: [String: Set<String>],
        passing held: HeldLocks?
    ) {
        let rows = tables.values.filter(\.hasOwnerClocks).sorted { $0.clock < $1.clock }
        guard !rows.isEmpty else { return nil }
        var keys: Set<ClockKey> = []
        for write in jobs.lazy.flatMap(\.groups).joined() where write.table.hasOwnerClocks {
            let key = write.table.clockKey(of: write.operation)
            if write.makesRow(of: key) { keys.insert(key) }
        }
        self.init(
            keys.sorted(),
            rows.map { ($0, Array(ids[$0.clock] ?? []).sorted()) },
            passing: held
        )
    }

    init(
        _ keys: [ClockKey],
        _ rows: [(table: PostgresTable, ids: [String])] = [],
        passing held: HeldLocks? = nil
    ) {
        let made = keys.filter { held?.contains(.clock($0)) != true }
        make = Self.make(made)
        findUnmade =
            PostgresStatement(
                """
                SELECT named."table", named.owner
                FROM unnest($1::text[], $2::text[]) AS named("table", owner)
                WHERE NOT \(OwnerClocks.isThere("named"))
                """,
                Self.named(made)
            ).kept
        let owners = rows.enumerated().map { place, row in
            """
            UNION ALL SELECT '\(row.table.clock)', \(row.table.ownerCell(of: "r."))
            FROM \(row.table.quoted) AS r WHERE r."id" = ANY($\(place + 3)::text[])
            """
        }
        let others = held == nil ? "" : " SKIP LOCKED"
        lock =
            PostgresStatement(
                """
                SELECT "table", "owner", "stamp", "counted" FROM tideline.owner_clocks
                WHERE ("table", "owner") IN (
                    SELECT * FROM unnest($1::text[], $2::text[]) \(owners.joined(separator: " "))
                )
                ORDER BY "table", "owner" FOR UPDATE\(others)
                """,
                Self.named(keys) + rows.map { .array($0.ids.map { .text($0) }) }
            ).kept
    }

    /// Makes those of these clocks that are not there.
    static func make(_ keys: [ClockKey]) -> PostgresStatement {
        PostgresStatement(
            OwnerClocks.makeClocks(
                """
                SELECT * FROM unnest($1::text[], $2::text[]) AS named("table", owner)
                """
            ),
            named(keys)
        ).kept
    }

    /// Which of these clocks nobody else has.
    static func findFree(_ keys: [ClockKey]) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT "table", "owner" FROM tideline.owner_clocks
            WHERE ("table", "owner") IN (SELECT * FROM unnest($1::text[], $2::text[]))
            FOR UPDATE SKIP LOCKED
            """,
            named(keys)
        ).kept
    }

    /// The clocks that ``findFree(_:)`` has found.
    static func keys(_ found: PostgresResult) -> Set<ClockKey> {
        Set((0..<found.count).map { ClockKey(table: found.text($0, 0), owner: found.text($0, 1)) })
    }

    /// The transactions that have locked these clocks last.
    static func findHolders(_ keys: [ClockKey]) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT "table", "owner", xmax::text FROM tideline.owner_clocks
            WHERE ("table", "owner") IN (SELECT * FROM unnest($1::text[], $2::text[]))
            """,
            named(keys)
        )
    }

    private static func named(_ keys: [ClockKey]) -> [PostgresParameter] {
        [
            .array(keys.map { .text($0.table) }),
            .array(keys.map { .text($0.owner ?? "") }),
        ]
    }
}
