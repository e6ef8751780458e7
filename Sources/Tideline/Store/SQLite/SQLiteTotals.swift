// SQLiteTotals: counts and sums of rows in a store file, computed by SQLite.

import Foundation
import TidelineCore
import TidelineSQLite

/// The SQL statements for a ``TotalsQuery`` on a store file.
struct SQLiteTotals {
    private let query: TotalsQuery
    private let table: SQLiteTable
    private let database: Database
    private let group: SQL?
    private let value: SQL?
    private let rest: SQL

    init(_ query: TotalsQuery, _ table: SQLiteTable, _ database: Database) throws {
        (self.query, self.table, self.database) = (query, table, database)
        group = query.group.map { SQLiteStoreSQL.value(of: $0, table) }
        value = query.value.map { SQLiteStoreSQL.value(of: $0, table) }
        var rest: SQL = " FROM \(Identifier(table.schema.name))"
        if let condition = try SQLiteStoreSQL.condition(query.filter, table) {
            rest.append("\nWHERE \(condition)")
        }
        self.rest = rest
    }

    func read() throws -> [RowTotals] {
        guard let value else {
            return try grouped("count(*)") { RowTotals(group: $0, count: Int($1.integer(1))) }
        }
        if query.value?.type == .decimal { return try decimals(value) }
        do {
            return try grouped("count(\(value)), sum(\(value))") { group, statement in
                RowTotals(
                    group: group,
                    count: Int(statement.integer(1)),
                    sum: SQLiteStoreSQL.value(statement, 2, .plain)
                )
            }
        } catch let error as SQLiteError where error.isIntegerOverflow {
            return try large(value)
        }
    }

    /// Adds integers whose sum does not fit in 64 bits: adds the upper and lower 32 bits
    /// separately.
    private func large(_ value: SQL) throws -> [RowTotals] {
        let parts: SQL = "count(\(value)), sum(\(value) >> 32), sum(\(value) & 4294967295)"
        return try grouped(parts) { group, statement in
            let upper = Decimal(statement.integer(2)) * Decimal(Int64(1) << 32)
            return RowTotals(
                group: group,
                count: Int(statement.integer(1)),
                sum: TotalsSum.integer(upper + Decimal(statement.integer(3)))
            )
        }
    }

    /// Adds decimals in memory, because SQLite stores them as strings.
    private func decimals(_ value: SQL) throws -> [RowTotals] {
        var sums: [Value: TotalsSum] = query.group == nil ? [.null: TotalsSum()] : [:]
        let list: SQL = group.map { $0 + ", " + value } ?? "NULL, " + value
        try rows("SELECT " + list + rest) { statement in
            let value = SQLiteStoreSQL.value(statement, 1, .decimal)
            var decimal = value
            if case .integer(let integer) = value { decimal = .decimal(Decimal(integer)) }
            sums[key(statement), default: TotalsSum()].add(decimal)
        }
        return sums.map { key, sum in
            RowTotals(group: key, count: sum.count, sum: sum.count == 0 ? .null : sum.sum)
        }
    }

    private func grouped(
        _ list: SQL,
        _ make: (Value, Statement) -> RowTotals
    ) throws -> [RowTotals] {
        var totals: [RowTotals] = []
        let first: SQL = group ?? "NULL"
        var sql: SQL = "SELECT " + first + ", " + list + rest
        if group != nil { sql.append("\nGROUP BY 1") }
        try rows(sql) { totals.append(make(key($0), $0)) }
        return totals
    }

    private func key(_ statement: Statement) -> Value {
        SQLiteStoreSQL.value(statement, 0, query.group.map { CellForm($0.type) } ?? .plain)
    }

    private func rows(_ sql: SQL, _ body: (Statement) throws -> Void) throws {
        let statement = try database.prepare(sql.text(for: .sqlite))
        defer { statement.reset() }
        try statement.bind(sql.bindings)
        while try statement.step() { try body(statement) }
    }
}

extension SQLiteStoreSQL {
    /// Returns a column's value, with a default for rows without a value.
    static func value(of column: TotalsQuery.Column, _ table: SQLiteTable) -> SQL {
        let field = QueryExpression(.field(column.name))
        return renderer(table).value(
            column.absent.isNull ? field : QueryExpression(.orElse(field, column.absent))
        )
    }

    /// Returns a filter as SQL; nil if there is no filter.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery`.
    static func condition(_ filter: Filter?, _ table: SQLiteTable) throws -> SQL? {
        try checked(filter, table).map { renderer(table).condition($0) }
    }
}
