// SyncReader: reads several tables from one committed state.

import TidelineCore
import TidelineSQLite

/// A reader of all tables of a client in one committed state, valid while its closure runs.
///
/// ``SyncContext/read(_:)`` and `SyncContext.observe(_:)` create a reader; ``SyncTransaction/reader`` is a reader that
/// also sees the changes of its transaction. A function that takes a reader can be called from all three. After the
/// closure ends, the reader's tables throw ``SyncError`` with code `transactionEnded`.
///
/// ```swift
/// struct Overview: Equatable {
///     var list: TodoList?
///     var open: [TodoItem]
///
///     init(_ reader: SyncReader, list id: String) throws {
///         list = try reader.table(TodoList.self).read(id: id)
///         open = try reader.table(TodoItem.self).read(where: { $0.list == id && !$0.complete })
///     }
/// }
/// ```
public final class SyncReader {
    private enum Source {
        case snapshot(any LocalStoreReader)
        case transaction(SyncTransaction)
        case ended
    }

    let engine: SyncEngine
    /// Whether the task that waits for the result was cancelled; nil in a transaction without such a task.
    let stop: QueryStop?
    private var source: Source
    /// The error of the store; if set, every further read throws it.
    private(set) var failure: (any Error)?
    /// The region that has been read so far; nil if no observation needs it.
    private(set) var region: ReadRegion?

    /// Creates a reader of a snapshot; `isRecording` is true for an observation.
    init(_ store: any LocalStoreReader, _ engine: SyncEngine, _ stop: QueryStop, isRecording: Bool)
    {
        (self.engine, self.stop) = (engine, stop)
        source = .snapshot(store)
        region = isRecording ? ReadRegion(catalog: engine.catalog) : nil
    }

    init(_ transaction: SyncTransaction) {
        engine = transaction.engine
        stop = transaction.stop
        source = .transaction(transaction)
    }

    /// Returns the table of a record type.
    ///
    /// - Throws: ``SyncError`` with code `unknownTable` if the type was not among the tables of the store.
    public func table<Record: SyncRecord>(_ type: Record.Type) throws -> ReaderTable<Record> {
        let schema = try engine.schema(Record.tableName)
        return ReaderTable(reader: self, coder: try RecordCoder.model(for: type, declared: schema))
    }

    /// Returns a table by name, with untyped rows.
    ///
    /// - Throws: ``SyncError`` with code `unknownTable`.
    public func table(named name: String) throws -> ReaderTable<Row> {
        ReaderTable(reader: self, coder: .untyped(table: try engine.schema(name)))
    }

    /// Runs `body` on the store.
    ///
    /// A failure of the store ends the read, even if the app's closure catches the error, because later reads could
    /// see another state.
    func reading<Result>(_ body: (any LocalStoreReader) throws -> Result) throws -> Result {
        switch source {
        case .transaction(let transaction): return try transaction.working { try body($0.store) }
        case .ended: throw SyncError.readEnded()
        case .snapshot(let store):
            if let failure { throw failure }
            if stop?.isSet == true { throw SyncError.cancelledRead(CancellationError()) }
            do {
                return try body(store)
            } catch let error as SyncError
                where error.code != .storeFailure && error.code != .storeUnavailable
            {
                throw error
            } catch {
                failure = error
                throw error
            }
        }
    }

    /// Whether an observation needs to know what is read.
    var isRecording: Bool { region != nil }

    func record(_ body: (inout ReadRegion) -> Void) {
        guard var changed = region else { return }
        // This leaves only one reference to the region, so that the change copies nothing.
        region = nil
        body(&changed)
        region = changed
    }

    func end() { source = .ended }
}
