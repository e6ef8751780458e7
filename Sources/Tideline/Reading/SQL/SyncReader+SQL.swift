// SyncReader+SQL: runs SQL that an app writes, on the state of a reader.

public import TidelineCore

extension SyncReader {
    /// Returns the rows of a SQL query, decoded into a type.
    ///
    /// SQLite's authorizer confines the statement: it may only read tables of the app, and may only call functions that
    /// depend on nothing but their arguments. `docs/database-schema.md` lists how the columns of a table are stored. An
    /// observation runs again after each change to a table that the statement reads.
    ///
    /// ```swift
    /// struct Total: Decodable {
    ///     var status: Status
    ///     var minutes: Int
    /// }
    /// let totals = try reader.sql(
    ///     "SELECT status, sum(minutes) AS minutes FROM Job WHERE customerID = \(id) GROUP BY status",
    ///     as: Total.self
    /// )
    /// ```
    ///
    /// Each property is decoded from the result column whose name is its coding key. A type that decodes one value,
    /// such as `Int` or `String`, is decoded from the first column. Instants, decimals, UUIDs and nested values are
    /// decoded from the form in which the store keeps them.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` if the statement is not valid or not allowed, and in a
    ///   store other than ``SQLiteStore``; `rowDoesNotFit` if a row does not decode; `transactionEnded` after the end
    ///   of the closure; `cancelled` if the task that waits for the closure was cancelled; or `storeFailure`.
    public func sql<Result: Decodable>(
        _ query: SQLQuery,
        as type: Result.Type
    ) throws -> [Result] {
        let rows = try rows(of: query)
        let columns = SQLColumns(rows.columns)
        return try rows.rows.map { try SQLRowDecoder(columns: columns, values: $0).read(type) }
    }

    /// Returns the records of a SQL query, such as `SELECT Job.* FROM Job JOIN Customer …`.
    ///
    /// A property whose column is null or not in the result has its default, as in a read with selected columns.
    ///
    /// - Throws: The errors of the overload for other types, or ``SyncError`` with code `unknownTable` if the type was
    ///   not among the tables of the store.
    public func sql<Record: SyncRecord>(
        _ query: SQLQuery,
        as type: Record.Type
    ) throws -> [Record] {
        let schema = try engine.schema(Record.tableName)
        let coder = try RecordCoder.model(for: type, declared: schema)
        let result = try rows(of: query)
        let layout = RowLayout(result.columns)
        let types = result.columns.map { schema.column(matching: $0)?.type }
        let rows = result.rows.map { values in
            Row(layout: layout, values: zip(values, types).map { $1.map($0.typed) ?? $0 })
        }
        let records = try coder.decode(rows, onDecodingFailure: .throw)
        engine.projected.handOut(rows, selecting: result.columns, coder)
        return records
    }

    /// Returns the rows of a SQL query as untyped rows, with the values as SQLite returns them.
    ///
    /// - Throws: The errors of the overloads with a type, except `rowDoesNotFit`.
    public func sql(_ query: SQLQuery) throws -> [Row] {
        let result = try rows(of: query)
        let layout = RowLayout(result.columns)
        return result.rows.map { Row(layout: layout, values: $0) }
    }

    private func rows(of query: SQLQuery) throws -> SQLRows {
        if let failure = query.failure { throw failure }
        let request = SQLRequest(query, tables: Set(engine.tableNames), stop: stop)
        do {
            let rows = try reading { try $0.sql(request) }
            record { region in
                for table in rows.tables { region.add(table: table) }
            }
            return rows
        } catch {
            // The tables that a failed statement reads are unknown, and a change to one of them may end the failure.
            record { region in
                for table in engine.tableNames { region.add(table: table) }
            }
            throw error
        }
    }
}

extension Value {
    /// Returns a value from SQLite, converted to the type of a column.
    fileprivate func typed(_ type: ColumnType) -> Value {
        switch (type, self) {
        case (.boolean, .integer(let integer)) where integer == 0 || integer == 1:
            .bool(integer == 1)
        case (.dateTime, .integer(let integer)): .millisecondsSince1970(integer) ?? self
        case (.number, .integer(let integer)): .number(Double(integer))
        case (.decimal, .string(let text)): DecimalText.parse(text).map(Value.decimal) ?? self
        case (.json, .string(let text)): .json(JSON(checked: text))
        case (.string, _), (.integer, _), (.number, _), (.decimal, _), (.boolean, _),
            (.dateTime, _), (.date, _), (.time, _), (.guid, _), (.binary, _), (.json, _),
            (.enumeration, _):
            self
        }
    }

    /// Returns the instant for milliseconds since 1970; nil if it is out of range.
    static func millisecondsSince1970(_ milliseconds: Int64) -> Value? {
        let (microseconds, isOutOfRange) = milliseconds.multipliedReportingOverflow(by: 1000)
        return isOutOfRange ? nil : .date(Timestamp(microseconds: microseconds).date)
    }
}
