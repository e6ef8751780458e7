// RelatedReading: one read of a RelatedQuery, within a SyncReader.

import TidelineCore

/// A read of related records.
struct RelatedReading {
    let reader: SyncReader
    let onDecodingFailure: DecodingFailurePolicy

    /// Decodes rows; the result has nil for a row that is skipped.
    func records<Record: SyncRecord>(
        of rows: [Row],
        _ table: ReaderTable<Record>
    ) throws -> [Record?] {
        switch onDecodingFailure {
        case .throw: return try table.coder.decode(rows, onDecodingFailure: .throw)
        case .skip:
            let records = try table.coder.decode(rows, onDecodingFailure: .skip)
            if records.count == rows.count { return records }
            return rows.map { try? table.coder.decode($0) }
        }
    }
}

extension SyncReader {
    /// Returns the records of a query with their related records.
    ///
    /// - Throws: ``SyncError`` with code `unknownTable` for a type that is not among the tables of the store,
    ///   `unsupportedQuery`, `rowDoesNotFit` unless `onDecodingFailure` skips such rows, or an error that every method
    ///   can throw.
    public func read<Record, each Related>(
        _ query: RelatedQuery<Record, repeat each Related>,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) throws -> [WithRelated<Record, repeat each Related>] {
        let table = try table(Record.self)
        let reading = RelatedReading(reader: self, onDecodingFailure: onDecodingFailure)
        let included = query.included
        let rows = try table.rows(included.query)
        return try included.entries(reading, table, rows).compactMap(\.self)
    }
}

extension SyncContext {
    /// Returns the records of a query with their related records, all of one committed state.
    ///
    /// - Throws: ``SyncError`` as for ``SyncReader/read(_:onDecodingFailure:)``, `storeNotInitialized`, `storeFailure`,
    ///   or `cancelled`.
    public nonisolated func read<Record, each Related>(
        _ query: RelatedQuery<Record, repeat each Related>,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) async throws -> [WithRelated<Record, repeat each Related>] {
        try await read { try $0.read(query, onDecodingFailure: onDecodingFailure) }
    }
}
