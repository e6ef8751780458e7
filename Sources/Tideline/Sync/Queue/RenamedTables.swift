// RenamedTables: handles tables whose names an earlier version of the app spelled with different
// letter case.

import TidelineCore

extension QueueReader {
    /// The tables whose names differ from the app's in letter case.
    var renamedTables: RenamedTables { RenamedTables(reader: self) }
}

extension QueueTransaction {
    /// The writer for tables whose names differ from the app's in letter case.
    var renamedTables: RenamedTableChanges { RenamedTableChanges(queue: self) }
}

/// A reader of the tables whose stored names differ from the app's in letter case.
struct RenamedTables {
    let reader: QueueReader

    /// Returns whether the store may have such tables.
    func exist() throws -> Bool {
        try !reader.idsOfUnnamedTables().isEmpty || !configRows().isEmpty
    }

    /// Returns the configuration of tables whose stored names differ from the app's in letter case,
    /// by the app's name.
    ///
    /// Names that already have a configuration are left out.
    fileprivate func configRows() throws -> [String: [Row]] {
        let stored = Dictionary(
            grouping: try reader.store.rows(TableQuery(), in: SystemTables.config)
        ) {
            $0["table"]?.text ?? ""
        }
        var renamed: [String: [Row]] = [:]
        for (table, rows) in stored where !table.isEmpty {
            guard let name = reader.catalog.schema(table)?.name, stored[name] == nil else {
                continue
            }
            renamed[name, default: []] += rows
        }
        return renamed
    }
}

/// A writer that renames the stored data of tables whose letter case has changed.
struct RenamedTableChanges {
    let queue: QueueTransaction

    /// Renames the operations, cursors, query numbers and lost rows of the tables.
    func takeOver() throws {
        try takeOverLostRecords()
        try takeOverConfig()
        try takeOverOperations()
    }

    /// Renames the lost rows of tables whose names differ from the app's in letter case.
    private func takeOverLostRecords() throws {
        for row in try queue.store.rows(TableQuery(), in: SystemTables.lost) {
            guard let table = row["table"]?.text, let itemID = row["itemId"]?.text,
                let name = queue.catalog.schema(table)?.name, name != table, let id = row["id"],
                try queue.reader.lostRecords.record(name, itemID) == nil
            else { continue }
            var renamed = row
            renamed["id"] = LostRecord.key(name, itemID)
            renamed["table"] = .string(name)
            try queue.store.delete(ids: [id], in: SystemTables.lost)
            try queue.store.put([renamed], in: SystemTables.lost)
        }
    }

    /// Renames the configuration of tables whose names differ from the app's in letter case.
    ///
    /// Cursors are kept only if the table has rows with a membership mask. Otherwise, the table is
    /// pulled from the beginning, because the store may have the rows under the other name.
    private func takeOverConfig() throws {
        let positions = Set(PullCursor.Part.allCases.map { Int64($0.rawValue) })
        for (table, rows) in try queue.reader.renamedTables.configRows() {
            let isMember: Filter = .greater(MembershipMask.name, .integer(-1))
            let hasMembers = try queue.unmasked.inner.count(isMember, in: table) > 0
            for row in rows {
                guard let key = row["key"]?.text, case .integer(let type) = row["keyType"],
                    let keyType = Int(exactly: type), let id = row["id"]
                else { continue }
                try queue.store.delete(ids: [id], in: SystemTables.config)
                guard hasMembers || !positions.contains(type) else { continue }
                var renamed = row
                renamed["id"] = .string(QueueReader.configID(table, key, keyType))
                renamed["table"] = .string(table)
                try queue.store.put([renamed], in: SystemTables.config)
            }
        }
    }

    private func takeOverOperations() throws {
        for id in try queue.reader.idsOfUnnamedTables() {
            guard var operation = try queue.reader.operation(id), operation.damage == nil,
                let table = queue.catalog.schema(operation.table)?.name
            else { continue }
            let row = try queue.store.row(id: .string(operation.itemID), in: table)
            guard row != nil || operation.kind == .delete else { continue }
            operation.table = table
            try queue.put(operation)
        }
    }
}
