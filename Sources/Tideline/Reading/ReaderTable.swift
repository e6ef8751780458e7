// ReaderTable: a table of a SyncReader, with synchronous reads.

import TidelineCore

/// A table of a ``SyncReader``, with the reads of ``RecordReading``.
///
/// All tables of one ``SyncReader`` show the same committed state.
public struct ReaderTable<Record: Sendable>: RecordReading {
    let reader: SyncReader
    let coder: RecordCoder<Record>

    private var name: String { coder.table.name }

    /// Returns the record with an id, or nil if the device does not have it.
    ///
    /// - Throws: ``SyncError`` with code `rowDoesNotFit`, or an error that every method can throw.
    public func read(id: String) throws -> Record? {
        let row = try reader.reading { try $0.row(id: .string(id), in: name) }
        reader.record { $0.add(id: id, of: name) }
        return try row.map { try coder.decode([$0], onDecodingFailure: .throw)[0] }
    }

    /// Returns the records of a query, and their total count if the query asks for it.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a column that the table does not
    ///   have or a negative limit or offset; `rowDoesNotFit`, unless `onDecodingFailure` skips such rows; or an
    ///   error that every method can throw.
    public func read(
        _ query: Query<Record>,
        onDecodingFailure: DecodingFailurePolicy
    ) throws -> Page<Record> {
        let rows = try rows(query.table)
        let total = query.includesTotalCount ? try count(query) : nil
        return Page(
            items: try coder.decode(rows, onDecodingFailure: onDecodingFailure),
            totalCount: total
        )
    }

    /// Returns the rows of a query.
    func rows(_ query: TableQuery) throws -> [Row] {
        let storeQuery = coder.applyingDefaults(query.bound(now: reader.engine.environment.now()))
        try storeQuery.checkWindow()
        let rows = try reader.reading { try coder.rows(storeQuery, of: $0) }
        if reader.isRecording {
            var observed = query
            observed.filter = conditionOnChanges(query.filter)
            reader.record { $0.add(observed, of: name, shown: rows) }
        }
        reader.engine.projected.handOut(rows, selecting: storeQuery.select, coder)
        return rows
    }

    /// Returns the rows of a query for several keys; see ``KeyedQuery``.
    func rows(
        _ query: TableQuery,
        where column: String,
        isOneOf keys: [String],
        _ scope: ReadScope
    ) throws -> [Row] {
        guard !keys.isEmpty else { return [] }
        let storeQuery = coder.applyingDefaults(query.bound(now: reader.engine.environment.now()))
        try storeQuery.checkWindow()
        let keyed = KeyedQuery(storeQuery, column: column, keys: keys)
        let rows = try reader.reading {
            try coder.rows(keyed, ofFewKeys: scope == .changes, of: $0)
        }
        if reader.isRecording {
            var observed = query
            observed.filter = conditionOnChanges(query.filter)
            let keys = KeyedQuery(observed, column: column, keys: keys)
            reader.record { $0.add(keys, of: name, shown: rows) }
        }
        reader.engine.projected.handOut(rows, selecting: keyed.query.select, coder)
        return rows
    }

    /// Returns the number of records that a query matches, ignoring its limit and offset.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery`, or an error that every method can throw.
    public func count(_ query: Query<Record>) throws -> Int {
        let storeFilter = coder.applyingDefaults(
            query.filter?.bound(now: reader.engine.environment.now())
        )
        return try count(query.filter, storeFilter)
    }

    /// Counts the rows of a filter; `storeFilter` is the filter that the store evaluates.
    private func count(_ filter: Filter?, _ storeFilter: Filter?) throws -> Int {
        guard reader.isRecording else {
            return try reader.reading { try $0.count(storeFilter, in: name) }
        }
        let (count, ids) = try reader.reading {
            try CountedRows.read(storeFilter, in: name, of: $0)
        }
        let observed = conditionOnChanges(filter)
        reader.record { $0.add(countOf: observed, of: name, counted: ids) }
        return count
    }

    /// Returns whether a record matches a query, ignoring its limit and offset.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery`, or an error that every method can throw.
    public func exists(_ query: Query<Record>) throws -> Bool {
        let now = reader.engine.environment.now()
        var first = TableQuery(filter: coder.applyingDefaults(query.filter?.bound(now: now)))
        first.select = [SystemColumn.id]
        first.limit = 1
        let rows = try reader.reading { [first] in try $0.rows(first, in: name) }
        if reader.isRecording {
            first.filter = conditionOnChanges(query.filter)
            reader.record { $0.add(first, of: name, shown: rows) }
        }
        return !rows.isEmpty
    }

    /// Returns the number of rows and the sum of a column, for all rows of a query or for each value of a column.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a column that the table does not have or that cannot
    ///   be added or grouped, or an error that every method can throw.
    public func totals(
        of column: String?,
        by group: String?,
        _ query: Query<Record>
    ) throws -> [RowTotals] {
        let now = reader.engine.environment.now()
        let request = TotalsQuery(
            filter: coder.applyingDefaults(query.filter?.bound(now: now)),
            value: try column.map { try coder.column(totaled: $0) },
            group: try group.map { try coder.column(grouping: $0) }
        )
        let totals = try reader.reading { try $0.totals(request, in: name) }
        // A changed row may have had a different value before.
        reader.record { $0.add(table: name, where: query.filter) }
        return try coder.ordered(totals, by: request.group)
    }

    /// Returns the condition that changes are checked against; calls of `now()` remain in it.
    func conditionOnChanges(_ filter: Filter?) -> Filter? {
        if filter?.expression.calls(.now) == true { return filter }
        return coder.conditionOnChanges(filter, now: reader.engine.environment.now())
    }
}

extension RecordCoder {
    /// Returns a column whose values can be added.
    fileprivate func column(totaled name: String) throws -> TotalsQuery.Column {
        let column = try column(name)
        switch column.type {
        case .integer, .number, .decimal: return column
        case .string, .boolean, .dateTime, .date, .time, .guid, .binary, .json, .enumeration:
            throw SyncError.unsupportedQuery(
                "column '\(name)' is \(column.type.name), and only numbers can be added"
            )
        }
    }

    /// Returns a column whose values divide rows into groups.
    fileprivate func column(grouping name: String) throws -> TotalsQuery.Column {
        let column = try column(name)
        if case .json = column.type {
            throw SyncError.unsupportedQuery(
                "column '\(name)' has nested values, by which rows cannot be grouped"
            )
        }
        return column
    }

    private func column(_ name: String) throws -> TotalsQuery.Column {
        // Rows on a device have no such column.
        guard let column = table.column(matching: name), column.name != SystemColumn.deleted else {
            throw SyncError.unsupportedQuery("table '\(table.name)' has no column '\(name)'")
        }
        let value = absent?.value(column.name)
        return TotalsQuery.Column(column.name, column.type, absent: value ?? .null)
    }

    /// Returns totals in ascending order of their groups.
    fileprivate func ordered(
        _ totals: [RowTotals],
        by group: TotalsQuery.Column?
    ) throws -> [RowTotals] {
        guard let group, totals.count > 1 else { return totals }
        let key = SortKey(column: group.name)
        let order = RowOrder(try FilterChecker(onDevice: table).order([key]))
        return totals.sorted { order.precedes([group.name: $0.group], [group.name: $1.group]) }
    }
}
