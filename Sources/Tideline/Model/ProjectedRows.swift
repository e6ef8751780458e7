// ProjectedRows: the rows that the app read with selected columns, so that no update writes a column that was
// not read (docs/local-rows.md, "Selected columns").
//
// A record of a selection has nil or defaults in the properties that were not read, like a record whose row stores
// these values. Only this memory distinguishes the two.

import Synchronization
import TidelineCore

/// The known facts about a record that may have been read with selected columns.
struct Projection: Sendable {
    fileprivate let table: String
    /// The columns that the selection did not include.
    fileprivate let unread: Set<String>
    /// The record type's values for columns without a value; empty if the table has no record type.
    fileprivate let placeholders: Row
    /// Whether the record is a plain row, in which the app may have set some of the columns.
    fileprivate let isPlain: Bool

    /// Throws if an update would overwrite a column that was not read.
    ///
    /// `stored` is the row as the record's type encodes it.
    func check(update edited: Row, of stored: Row) throws {
        if isPlain {
            // A row made from a record has all columns; a row that was read has only the selected columns.
            let isRecord = unread.allSatisfy { name in
                guard let value = edited[name], let placeholder = placeholders[name] else {
                    return false
                }
                return RowMerge.same(value, placeholder)
            }
            guard isRecord else { return }
        }
        let lost = unread.filter { name in
            guard let value = edited[name], let placeholder = placeholders[name] else {
                return false
            }
            return RowMerge.same(value, placeholder) && !RowMerge.same(stored[name], placeholder)
        }
        guard lost.isEmpty else { throw error(edited, lost) }
    }

    /// Throws if a record without version and time may have been read with selected columns.
    ///
    /// The state that its values come from is not known, so an update could overwrite a later change.
    func checkState(of edited: Row) throws {
        if !isPlain { throw error(edited, unread) }
    }

    /// Throws if an insert would store only placeholders in the columns that were not read.
    func check(insert new: Row) throws {
        let isRead = unread.contains { name in
            guard let value = new[name] else { return false }
            return !RowMerge.same(value, placeholders[name])
        }
        guard isRead else { throw error(new, unread) }
    }

    private func error(_ row: Row, _ columns: Set<String>) -> SyncError {
        SyncError(
            .partialRecord,
            """
            Record '\(row.id)' of table '\(table)' was read with selected columns; it has no values for \
            \(columns.sorted().joined(separator: ", ")). Change the row with update(id:_:), or read the record \
            without a selection first.
            """
        )
    }
}

/// The rows that the app read with selected columns.
final class ProjectedRows: Sendable {
    private struct Table {
        var unread: [ItemKey: Set<String>] = [:]
        /// The unread columns of all rows that are no longer tracked individually; any row may be one of them.
        var unreadOfAny: Set<String> = []
        var identity = RecordIdentity.nothing
        /// Whether a selection included the column that identifies a record's state.
        var selectsState = false
        /// The values of the last record type for columns without a value.
        var placeholders: Row?
    }

    private let tables = Mutex<[String: Table]>([:])
    private let rowsMax: Int

    /// `rowsMax` is the maximum number of rows of a table that are tracked individually.
    init(rowsMax: Int) { self.rowsMax = rowsMax }

    /// Records the rows that a query returned; does nothing if the query selects no columns.
    func handOut<Record>(_ rows: [Row], selecting names: [String]?, _ coder: RecordCoder<Record>) {
        guard let names, !rows.isEmpty else { return }
        let selected = Set(names.map { $0.lowercased() })
        let unread = Set(
            (coder.schema?.columns ?? coder.table.columns).map(\.name).filter {
                !SystemColumn.names.contains($0) && !selected.contains($0.lowercased())
            }
        )
        guard !unread.isEmpty else { return }
        let identity = coder.identity
        let selectsState = identity.column.map { selected.contains($0.lowercased()) } ?? false
        let placeholders = coder.schema == nil ? nil : coder.placeholders
        tables.withLock { tables in
            var table = tables.removeValue(forKey: coder.table.name) ?? Table()
            table.identity = identity
            table.selectsState = table.selectsState || selectsState
            table.placeholders = placeholders ?? table.placeholders
            for row in rows {
                let key = ItemKey(row.id)
                let known = table.unread[key]
                if known != unread { table.unread[key] = known?.union(unread) ?? unread }
            }
            if table.unread.count > rowsMax {
                for columns in table.unread.values { table.unreadOfAny.formUnion(columns) }
                table.unread = [:]
            }
            tables[coder.table.name] = table
        }
    }

    /// Returns the known facts about a record's row; nil if the record cannot come from a selection.
    func projection<Record>(
        of row: Row,
        _ coder: RecordCoder<Record>,
        _ catalog: TableCatalog?
    ) -> Projection? {
        let name = coder.table.name
        guard let unread = unread(of: row, table: name, identity: coder.identity) else {
            return nil
        }
        let isPlain = coder.schema == nil
        // A row may have been made from a record.
        let placeholders =
            isPlain
            ? catalog?.placeholders(of: name) ?? tables.withLock { $0[name]?.placeholders }
            : coder.placeholders
        return Projection(
            table: name,
            unread: unread,
            placeholders: placeholders ?? Row(),
            isPlain: isPlain
        )
    }

    /// Returns the known facts about a row that an app passes to an error's action; nil if it cannot come from a
    /// selection.
    func projection(of row: Row, table name: String, _ catalog: TableCatalog) -> Projection? {
        guard let unread = unread(of: row, table: name, identity: nil) else { return nil }
        return Projection(
            table: name,
            unread: unread,
            placeholders: catalog.placeholders(of: name) ?? Row(),
            isPlain: true
        )
    }

    private func unread(
        of row: Row,
        table name: String,
        identity: RecordIdentity?
    ) -> Set<String>? {
        tables.withLock { tables in
            guard let table = tables[name] else { return nil }
            let unread = table.unreadOfAny.union(table.unread[ItemKey(row.id)] ?? [])
            let isWhole = RowState(row, identity ?? table.identity) != nil && !table.selectsState
            return unread.isEmpty || isWhole ? nil : unread
        }
    }
}

extension RecordIdentity {
    /// The column that identifies a record's state.
    fileprivate var column: String? {
        switch self {
        case .version: SystemColumn.version
        case .updatedAt: SystemColumn.updatedAt
        case .nothing: nil
        }
    }
}

extension RecordCoder {
    /// The record type's values for columns without a value.
    fileprivate var placeholders: Row? {
        (try? decode(["id": ""])).flatMap { try? encode($0) }
    }
}
