// SQLiteTransaction: reads and writes the rows of a store file in one transaction.

import Foundation
import TidelineCore
import TidelineSQLite

/// A transaction on a store file, which reads rows and, if it is a writer, changes them.
struct SQLiteTransaction: LocalStoreWriter {
    let database: Database
    let tables: [String: SQLiteTable]
    private let plans = PutPlans()
    private let recorder: RowRecorder?
    private let end: TransactionEnd?
    /// The state that this transaction reads; nil if it is not known.
    private let snapshot: StateOfReader?
    /// Whether the transaction may write.
    let isWriter: Bool

    /// `recorder` records the written rows; `end` can end the transaction early.
    init(
        _ database: Database,
        _ tables: [String: SQLiteTable],
        _ recorder: RowRecorder? = nil,
        isWriter: Bool = false,
        end: TransactionEnd? = nil,
        snapshot: StateOfReader? = nil
    ) {
        self.end = end
        self.snapshot = snapshot
        self.isWriter = isWriter
        self.database = database
        self.tables = tables
        self.recorder = recorder
    }

    func table(_ name: String) throws -> SQLiteTable {
        try end?.check()
        guard let table = tables[name] else {
            throw SyncError.unknownTable(name, known: tables.keys.filter { !$0.hasPrefix("MS_") })
        }
        return table
    }

    func rows(_ query: TableQuery, in table: String) throws -> [Row] {
        try searching(query, table) { try rows(query, in: table, isMasked: true) }
    }

    /// Returns the rows of a query, with or without the membership mask.
    func rows(_ query: TableQuery, in table: String, isMasked: Bool) throws -> [Row] {
        let table = try self.table(table)
        let columns = query.select.flatMap { table.columns(named: $0) }
        return try inParts(query) { part in
            let sql = try select(part, table, only: columns)
            return try rows(of: sql, table, columns, query.select, isMasked: isMasked)
        }
    }

    /// Reads the rows of a query; reads them in two parts if each part can then use an index.
    private func inParts(_ query: TableQuery, _ read: (TableQuery) throws -> [Row]) throws -> [Row]
    {
        guard let limit = query.limit, var parts = query.nullsApart else { return try read(query) }
        let rows = try read(parts.first)
        guard rows.count < limit else { return rows }
        parts.second.limit = limit - rows.count
        return rows + (try read(parts.second))
    }

    /// Returns the rows of a statement that reads these columns of a table; if `columns` is nil, it
    /// reads whole rows.
    func rows(
        of sql: SQL,
        _ table: SQLiteTable,
        _ columns: [ColumnDefinition]?,
        _ names: [String]?,
        isMasked: Bool
    ) throws -> [Row] {
        let statement = try database.prepare(sql.text(for: .sqlite))
        defer { statement.reset() }
        try statement.bind(sql.bindings)
        var rows: [Row] = []
        if let columns {
            let layout = RowLayout(columns.map(\.name))
            let forms = columns.map { CellForm($0.type) }
            while try statement.step() {
                let values = forms.indices.map {
                    SQLiteStoreSQL.value(statement, Int32($0), forms[$0])
                }
                rows.append(Row(layout: layout, values: values))
            }
            return rows
        }
        while try statement.step() { rows.append(row(statement, table, isMasked: isMasked)) }
        guard let names else { return rows }
        return rows.map { row in
            var result = Row()
            for name in names { result[name] = row[name] ?? .null }
            return result
        }
    }

    func recordRows(
        _ query: TableQuery,
        in name: String,
        omitting column: String
    ) throws -> [Row] {
        let table = try self.table(name)
        guard query.select == nil, table.hasExtra, table.others.isEmpty,
            column == MembershipMask.name
        else { return try rows(query, in: name, omitting: column) }
        return try searching(query, name) {
            try inParts(query) { try recordRows(of: try select($0, table, only: nil), table) }
        }
    }

    var evaluatesRelatedRows: Bool { true }

    var state: StoreState? { snapshot?.state }

    func changes(since state: StoreState) -> StoreChange? {
        snapshot.flatMap { $0.log.changes(from: state, to: $0.state) }
    }

    func keyedRows(_ query: KeyedQuery, in name: String, omitting column: String) throws -> [Row] {
        try SQLiteRelatedReads(transaction: self).rows(query, in: name, omitting: column)
    }

    /// Returns a filter whose conditions on other tables are checked against those tables.
    func located(_ filter: Filter?) throws -> Filter? {
        try SQLiteRelatedReads(transaction: self).filter(filter)
    }

    /// Returns the rows of a statement that reads whole rows, with the unknown members of each row
    /// as one JSON object.
    func recordRows(of sql: SQL, _ table: SQLiteTable) throws -> [Row] {
        let statement = try database.prepare(sql.text(for: .sqlite))
        defer { statement.reset() }
        try statement.bind(sql.bindings)
        var rows: [Row] = []
        while try statement.step() { rows.append(recordRow(statement, table)) }
        return rows
    }

    func row(id: Value, in table: String) throws -> Row? {
        let table = try self.table(table)
        let statement = try database.prepare(table.selectByID)
        defer { statement.reset() }
        statement.bind(1, SQLiteStoreSQL.stored(id))
        return try statement.step() ? row(statement, table, isMasked: true) : nil
    }

    func count(_ filter: Filter?, in name: String) throws -> Int {
        let table = try self.table(name)
        let query = TableQuery(filter: filter)
        return try searching(query, name) {
            if query.searches { try updateSearch(of: table) }
            let filter = try located(filter)
            let ordered = try OrderedSelect.count(filter, table)
            if ordered != nil { try updateOrder(of: table) }
            let sql = try ordered ?? SQLiteStoreSQL.count(filter, table)
            let statement = try database.prepare(sql.text(for: .sqlite))
            defer { statement.reset() }
            try statement.bind(sql.bindings)
            return try statement.step() ? Int(statement.integer(0)) : 0
        }
    }

    func totals(_ query: TotalsQuery, in name: String) throws -> [RowTotals] {
        let table = try self.table(name)
        let rows = TableQuery(filter: query.filter)
        return try searching(rows, name) {
            if rows.searches { try updateSearch(of: table) }
            var query = query
            query.filter = try located(query.filter)
            return try SQLiteTotals(query, table, database).read()
        }
    }

    func sql(_ request: SQLRequest) throws -> SQLRows {
        try end?.check()
        return try SQLiteConfinedRead(request: request, tables: tables, database: database).read()
    }

    func put(_ rows: [Row], in table: String) throws {
        for row in rows {
            try end?.check()
            let plan = try plan(row.rowLayout, table)
            let isAsGiven = bind(row, plan)
            try plan.statement.run()
            guard let recorder, plan.table.schema.hasSystemColumns else { continue }
            if isAsGiven {
                recorder.note(row["id"], row, in: table)
            } else {
                recorder.noteAll(in: table)
            }
        }
    }

    private func plan(_ layout: RowLayout, _ name: String) throws -> PutPlan {
        if let plan = plans.recent(layout, name) { return plan }
        let table = try self.table(name)
        let plan = PutPlan(layout, table, try database.prepare(table.insert))
        plans.keep(plan)
        return plan
    }

    /// Binds the values of a row; returns false if SQL would read a different value from one of the
    /// columns.
    private func bind(_ row: Row, _ plan: PutPlan) -> Bool {
        let (table, statement) = (plan.table, plan.statement)
        let values = row.allValues
        var checksum = RowChecksum()
        var rest = Row()
        var isAsGiven = true
        for (index, source) in plan.sources.enumerated() {
            let place = Int32(index + 1)
            guard let source else {
                statement.bindNull(place)
                continue
            }
            var value = values[source]
            if index >= table.columns.count {
                value = table.typed(value, ofCell: index)
                isAsGiven = false
            }
            guard table.cells[index].holds(value) else {
                rest[table.name(ofCell: index)] = value
                statement.bindNull(place)
                isAsGiven = false
                continue
            }
            if case .date(let date) = value, Value.milliseconds(date) != value { isAsGiven = false }
            SQLiteStoreSQL.bind(value, statement, place)
            if let column = table.checked[index] { checksum.add(value, column) }
        }
        guard table.hasExtra else { return isAsGiven }
        for name in plan.extras { rest[name] = row[name] }
        if rest.count == 0 {
            statement.bindNull(table.extraIndex)
        } else {
            var text = RowText.json(rest).text
            text.withUTF8 { bytes in
                checksum.add(text: bytes, SQLiteTable.extraChecked)
                statement.bind(table.extraIndex, utf8: bytes)
            }
        }
        statement.bind(table.checksumIndex, checksum)
        return isAsGiven
    }

    func put(page rowPage: RowPage, in table: String) throws {
        let (page, bits) = (rowPage.cells, rowPage.bits)
        recorder?.noteAll(in: table)
        let table = try self.table(table)
        let statement = try database.prepare(table.insert)
        // The bound values point into the page's bytes.
        defer { statement.clearBindings() }
        var places: [(index: Int32, cell: Int, checked: RowChecksum.Column)] = []
        for (index, column) in (table.columns + table.others).enumerated() {
            if column.name == MembershipMask.name {
                statement.bind(Int32(index + 1), integer: bits)
            } else if let place = page.columns.firstIndex(of: column.name),
                let checked = table.checked[index]
            {
                places.append((Int32(index + 1), place, checked))
            } else {
                statement.bindNull(Int32(index + 1))
            }
        }
        if table.hasExtra { statement.bindNull(table.extraIndex) }
        try page.withBytes { bytes, copies in
            for row in 0..<page.rowCount {
                let first = row * page.columns.count
                var checksum = RowChecksum()
                for (index, place, checked) in places {
                    let cell = page.cells[first + place]
                    Self.bind(cell, statement, index, bytes, copies, &checksum, checked)
                }
                if table.hasExtra { statement.bind(table.checksumIndex, checksum) }
                try statement.run()
            }
        }
    }

    @inline(__always)
    private static func bind(
        _ cell: PageCells.Cell,
        _ statement: Statement,
        _ index: Int32,
        _ bytes: UnsafeBufferPointer<UInt8>,
        _ copies: UnsafeBufferPointer<UInt8>,
        _ checksum: inout RowChecksum,
        _ checked: RowChecksum.Column
    ) {
        @inline(__always)
        func part(_ bytes: UnsafeBufferPointer<UInt8>) -> UnsafeBufferPointer<UInt8> {
            let start = Int(cell.payload)
            return UnsafeBufferPointer(rebasing: bytes[start..<start + Int(cell.count)])
        }
        switch cell.kind {
        case .null: statement.bindNull(index)
        case .integer:
            checksum.add(integer: cell.payload, checked)
            statement.bind(index, integer: cell.payload)
        case .real:
            let real = Double(bitPattern: UInt64(bitPattern: cell.payload))
            checksum.add(real: real, checked)
            statement.bind(index, real: real)
        case .text, .copiedText:
            let text = part(cell.kind == .text ? bytes : copies)
            checksum.add(text: text, checked)
            statement.bind(index, lent: text)
        case .copiedBlob:
            checksum.add(blob: part(copies), checked)
            statement.bind(index, lentBlob: part(copies))
        }
    }

    func append(_ row: Row, in table: String) throws -> Int64 {
        var row = row
        // SQLite assigns the key.
        if row[SystemColumn.id] != nil { row[SystemColumn.id] = .null }
        try put([row], in: table)
        return database.lastID
    }

    func delete(ids: [Value], in name: String) throws -> Int {
        let table = try self.table(name)
        let statement = try database.prepare(table.deleteByID)
        var count = 0
        for id in ids {
            statement.bind(1, SQLiteStoreSQL.stored(id))
            try statement.run()
            count += database.changes
            if table.schema.hasSystemColumns { recorder?.note(id, nil, in: name) }
        }
        return count
    }

    /// Returns the current row, with its unknown members as one JSON object unless one of them may
    /// be a column's value.
    private func recordRow(_ statement: Statement, _ table: SQLiteTable) -> Row {
        let extra = statement.cell(Int32(table.forms.count))
        if extra.isNull { return row(statement, table, isMasked: false) }
        let object = extra.utf8
        for index in table.columns.indices
        where index != table.mask && statement.cell(Int32(index)).isNull
            && UnknownMembers.mayHave(table.memberNames[index], in: object)
        {
            return row(statement, table, isMasked: false)
        }
        var values: [Value] = []
        values.reserveCapacity(table.recordLayout.names.count)
        for index in table.columns.indices where index != table.mask {
            values.append(SQLiteStoreSQL.value(statement, Int32(index), table.forms[index]))
        }
        values.append(.json(JSON(checked: String(decoding: object, as: UTF8.self))))
        return Row(layout: table.recordLayout, values: values)
    }

    func row(_ statement: Statement, _ table: SQLiteTable, isMasked: Bool) -> Row {
        let skipped = isMasked ? nil : table.mask
        let layout = skipped == nil ? table.layout : table.unmaskedLayout
        var values: [Value] = []
        values.reserveCapacity(layout.names.count)
        let forms = table.forms
        for index in table.columns.indices where index != skipped {
            values.append(SQLiteStoreSQL.value(statement, Int32(index), forms[index]))
        }
        var row = Row(layout: layout, values: values)
        if !table.others.isEmpty {
            var members = Row()
            for (index, column) in table.others.enumerated() {
                let place = table.columns.count + index
                let value = SQLiteStoreSQL.value(statement, Int32(place), forms[place])
                if !value.isNull { members[column.name] = value }
            }
            for (name, value) in table.untyped(members) { row[name] = value }
        }
        let extra = Int32(forms.count)
        if table.hasExtra, !statement.cell(extra).isNull,
            let rest = RowText.row(Data(statement.text(extra).utf8), table.extraSchema)
        {
            for (name, value) in rest { row[name] = value }
        }
        return row
    }
}

extension SQLiteTransaction {
    func rows(_ query: TableQuery, in table: String, omitting column: String) throws -> [Row] {
        if column == MembershipMask.name { return try rows(query, in: table, isMasked: false) }
        var member = RowMember(column)
        return try rows(query, in: table).map { member.removed(from: $0) }
    }

    func set(_ column: String, to value: Value, ofRow id: Value, in table: String) throws {
        guard column == MembershipMask.name, case .integer(let bits) = value else {
            guard var row = try row(id: id, in: table) else { return }
            row[column] = value
            return try put([row], in: table)
        }
        let statement = try database.prepare(try self.table(table).setMaskByID)
        statement.bind(1, SQLiteStoreSQL.stored(id))
        statement.bind(2, integer: bits)
        try statement.run()
    }
}

extension Statement {
    fileprivate func bind(_ index: Int32, _ checksum: RowChecksum) {
        if let value = checksum.value {
            bind(index, integer: value)
        } else {
            bindNull(index)
        }
    }
}

/// The positions of a table's columns in rows of one layout, with the statement that stores such a
/// row.
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
        let columns = table.columns + table.others
        sources = columns.map { layout.index(of: $0.name) }
        let names = Set(columns.map(\.name))
        extras = table.hasExtra ? layout.names.filter { !names.contains($0) } : []
    }
}

/// The most recent plans of a transaction, because writes of a row and of its queued operation
/// alternate.
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
