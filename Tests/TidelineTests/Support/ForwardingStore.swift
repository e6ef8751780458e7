// ForwardingStore: stores, readers and writers that pass each call on to another one.
//
// A test's own store declares only the calls that it changes.

import Tideline
import TidelineCore

protocol ForwardingStore: LocalStore {
    var inner: any LocalStore { get }
}

extension ForwardingStore {
    func open(tables: [TableSchema]) async throws { try await inner.open(tables: tables) }

    func read<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreReader) throws -> Result
    ) async throws -> Result {
        try await inner.read(body)
    }

    func write<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreWriter) throws -> Result
    ) async throws -> Result {
        try await inner.write(body)
    }

    func changes() -> AsyncStream<Set<String>> { inner.changes() }
}

protocol ForwardingReader: LocalStoreReader {
    var inner: any LocalStoreReader { get }
}

extension ForwardingReader {
    func rows(_ query: TableQuery, in table: String) throws -> [Row] {
        try inner.rows(query, in: table)
    }

    func row(id: Value, in table: String) throws -> Row? { try inner.row(id: id, in: table) }

    func count(_ filter: Filter?, in table: String) throws -> Int {
        try inner.count(filter, in: table)
    }

    func keyedRows(
        _ query: KeyedQuery,
        in table: String,
        omitting column: String
    ) throws -> [Row] { try inner.keyedRows(query, in: table, omitting: column) }

    var evaluatesRelatedRows: Bool { inner.evaluatesRelatedRows }

    var state: StoreState? { inner.state }

    func changes(since state: StoreState) -> StoreChange? { inner.changes(since: state) }
}
