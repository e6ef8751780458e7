// RelatedReading: one read of a RelatedQuery, within a SyncReader.

import TidelineCore

/// A read of related records.
struct RelatedReading {
    let reader: SyncReader
    let onDecodingFailure: DecodingFailurePolicy
    let scope: ReadScope

    init(
        _ reader: SyncReader,
        _ onDecodingFailure: DecodingFailurePolicy,
        _ scope: ReadScope = .once
    ) {
        (self.reader, self.onDecodingFailure, self.scope) = (reader, onDecodingFailure, scope)
    }

    /// Returns the records of rows together with their rows; both exclude skipped rows.
    func records<Record: SyncRecord>(
        of rows: [Row],
        _ table: ReaderTable<Record>
    ) throws -> (rows: [Row], entries: [Record]) {
        let records = try table.coder.decode(rows, onDecodingFailure: onDecodingFailure)
        if records.count == rows.count { return (rows, records) }
        var left = records[...]
        let fitting = rows.filter { row in
            guard let next = left.first, table.coder.id(next) == row.id else { return false }
            left.removeFirst()
            return true
        }
        return (fitting, records)
    }
}

extension SyncReader {
    /// Returns the records of a query, with their related records if it is a ``RelatedQuery``.
    ///
    /// ```swift
    /// let customers = try Query<Customer>().including(Query<Job>(), on: \.customerID)
    /// for entry in try reader.read(customers) { show((entry.record, entry.related)) }
    /// ```
    ///
    /// The result has no total count, even if the query has ``Query/includesTotalCount``; call
    /// ``RecordReading/count(_:)`` instead.
    ///
    /// - Parameters:
    ///   - query: A ``Query`` or a ``RelatedQuery``.
    ///   - onDecodingFailure: Whether a row that does not decode, in any of the tables, is an error or is skipped.
    /// - Returns: The records, or values of type ``WithRelated``.
    /// - Throws: ``SyncError`` with code `unknownTable` for a type that is not among the tables of the store,
    ///   `unsupportedQuery`, `rowDoesNotFit` unless `onDecodingFailure` skips such rows, or an error that every method
    ///   can throw.
    public func read<Related: IncludableQuery>(
        _ query: Related,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) throws -> [Related.Entry] {
        let table = try table(Related.Record.self)
        let included = query.included
        let rows = try table.rows(included.query)
        var entries = included.reader
        return try entries.entries(RelatedReading(self, onDecodingFailure), table, rows).entries
    }
}
