// SQLiteTransaction: rows of a store file, within one transaction.

import Foundation
import TidelineCore
import TidelineSQLite

struct SQLiteTransaction: LocalStoreWriter {
    let database: Database
    let tables: [String: SQLiteTable]
    private let plans = PutPlans()

    init(database: Database, tables: [String: SQLiteTable]) {
        self.database = database
        self.tables = tables
    }

    private func table(_ name: String) throws -> SQLiteTable {
        guard let table = tables[name] else {
            throw SyncError.unknownTable(name, known: tables.keys.filter { !$0.hasPrefix("MS_") })
        }
        return table
    }

    func rows(_ query: TableQuery, in table: String) throws -> [Row] {
        let table = try self.table(table)
        let columns = query.select.flatMap { table.columns(named: $0) }
        let sql = try SQLiteStoreSQL.select(query, table, only: columns)
        let statement = try database.prepare(sql.text(for: .sqlite))
        defer { statement.reset() }
        try statement.bind(sql.bindings)
        var rows: [Row] = []
        if let columns {
            let layout = RowLayout(columns.map(\.name))
            while try statement.step() {
                let values = columns.enumerated().map { index, column in
                    SQLiteStoreSQL.value(statement, Int32(index), column.type)
                }
                rows.append(Row(layout: layout, values: values))
            }
            return rows
        }
        while try statement.step() { rows.append(row(statement, table)) }
        guard let select = query.select else { return rows }
        return rows.map { row in
            var result = Row()
            for name in select { result[name] = row[name] ?? .null }
            return result
        }
    }

    func row(id: Value, in table: String) throws -> Row? {
        let table = try self.table(table)
        let statement = try database.prepare(table.selectByID)
        defer { statement.reset() }
        statement.bind(1, SQLiteStoreSQL.stored(id))
        return try statement.step() ? row(statement, table) : nil
    }

    func count(_ filter: Filter?, in table: String) throws -> Int {
        let sql = try SQLiteStoreSQL.count(filter, try self.table(table))
        let statement = try database.prepare(sql.text(for: .sqlite))
        defer { statement.reset() }
        try statement.bind(sql.bindings)
        return try statement.step() ? Int(statement.integer(0)) : 0
    }

    func put(_ rows: [Row], in table: String) throws {
        for row in rows {
            let plan = try plan(row.rowLayout, table)
            bind(row, plan)
            try plan.statement.run()
        }
    }

    private func plan(_ layout: RowLayout, _ name: String) throws -> PutPlan {
        if let plan = plans.recent(layout, name) { return plan }
        let table = try self.table(name)
        let plan = PutPlan(layout, table, try database.prepare(table.insert))
        plans.keep(plan)
        return plan
    }

    private func bind(_ row: Row, _ plan: PutPlan) {
        let (table, statement) = (plan.table, plan.statement)
        let values = row.allValues
        var rest = Row()
        for (index, source) in plan.sources.enumerated() {
            if let source, table.cells[index].holds(values[source]) {
                SQLiteStoreSQL.bind(values[source], statement, Int32(index + 1))
            } else {
                if let source { rest[table.columns[index].name] = values[source] }
                statement.bindNull(Int32(index + 1))
            }
        }
        guard table.hasExtra else { return }
        let extra = Int32(table.columns.count + 1)
        for name in plan.extras { rest[name] = row[name] }
        if rest.count == 0 {
            statement.bindNull(extra)
        } else {
            statement.bind(extra, text: RowText.json(rest).text)
        }
    }

    func append(_ row: Row, in table: String) throws -> Int64 {
        try put([row], in: table)
        return database.lastID
    }

    func delete(ids: [Value], in table: String) throws -> Int {
        let table = try self.table(table)
        let statement = try database.prepare(table.deleteByID)
        var count = 0
        for id in ids {
            statement.bind(1, SQLiteStoreSQL.stored(id))
            try statement.run()
            count += database.changes
        }
        return count
    }

    private func row(_ statement: Statement, _ table: SQLiteTable) -> Row {
        var values: [Value] = []
        values.reserveCapacity(table.columns.count)
        for (index, column) in table.columns.enumerated() {
            values.append(SQLiteStoreSQL.value(statement, Int32(index), column.type))
        }
        var row = Row(layout: table.layout, values: values)
        let extra = Int32(table.columns.count)
        if table.hasExtra, !statement.isNull(extra),
            let rest = RowText.row(Data(statement.text(extra).utf8), table.schema)
        {
            for (name, value) in rest { row[name] = value }
        }
        return row
    }
}

/// Where the columns of a table are in rows of one layout, and the statement that stores one.
private final class PutPlan {
    let layout: RowLayout
    let table: SQLiteTable
    let statement: Statement
    let sources: [Int?]
    let extras: [String]

    init(_ layout: RowLayout, _ table: SQLiteTable, _ statement: Statement) {
        self.layout = layout
        self.table = table
        self.statement = statement
        sources = table.columns.map { layout.index(of: $0.name) }
        extras =
            table.hasExtra ? layout.names.filter { table.layout.index(of: $0) == nil } : []
    }
}

/// The plans of a transaction that were made last: a row and its queue entry take turns.
private final class PutPlans {
    private var plans: [PutPlan] = []

    func recent(_ layout: RowLayout, _ table: String) -> PutPlan? {
        plans.first { $0.layout === layout && $0.table.schema.name == table }
    }

    func keep(_ plan: PutPlan) {
        if plans.count == Self.plansMax { plans.removeFirst() }
        plans.append(plan)
    }

    private static let plansMax = 4
}
