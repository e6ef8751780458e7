// LocalNameChanges: changes the queue after an app update starts or stops synchronizing a table or
// column.
//
// The store keeps the names of the tables and columns that stay on the device. The transaction that
// stores new names also changes the queue. Otherwise, a pull would remove rows and replace values
// that were never sent.

import TidelineCore

/// The differences between the stored names of local tables and columns and the catalog's names.
struct LocalNameChanges: Sendable {
    /// The tables that used to stay on the device and are now synchronized, parents before
    /// children.
    private var newTables: [String] = []
    /// The columns that used to stay on the device and are now synchronized, in other tables.
    private var newColumns: [(table: String, columns: [String])] = []
    /// The tables that stay on the device but still have operations or lost rows.
    private var formerTables: [String] = []
    /// The names to store, separated by line breaks; nil if they have not changed.
    ///
    /// The commands that compare a store file with a server also read these names.
    private var names: String?

    private static let id = Value.string("local")
    private static let rowsAtOnce = 500

    /// Compares the stored names with the catalog's names; if no names are stored, nothing was
    /// local.
    init(_ reader: QueueReader) throws {
        let catalog = reader.catalog
        let row = try reader.store.row(id: Self.id, in: SystemTables.config)
        let text = row?["value"]?.text ?? ""
        let stored = text.split(separator: "\n").map(String.init)
        let former = Set(stored.map { $0.lowercased() })
        var declared = Set(catalog.localNames.map { $0.lowercased() })
        for table in catalog.references.parentsFirst(catalog.schemas.keys.sorted()) {
            guard let schema = catalog.schemas[table] else { continue }
            declared.insert(table.lowercased())
            declared.formUnion(schema.columns.map { Self.name(of: $0.name, in: table) })
            if schema.isLocalOnly {
                // An earlier version of the app may not have stored any names.
                let isFormer =
                    try reader.count(table: table) > 0 || !reader.lostRecords.ids(in: table).isEmpty
                if isFormer { formerTables.append(table) }
                continue
            }
            if former.contains(table.lowercased()) {
                newTables.append(table)
                continue
            }
            let columns = schema.columns.map(\.name).filter {
                !schema.localColumns.contains($0) && former.contains(Self.name(of: $0, in: table))
            }
            if !columns.isEmpty { newColumns.append((table, columns)) }
        }
        // A widget or another version of the app may declare tables and columns that this version
        // does not.
        let others = stored.filter { !declared.contains($0.lowercased()) }
        let new = (catalog.localNames + others).sorted().joined(separator: "\n")
        if new != text { names = new }
    }

    /// Returns the name of a local column in lower case.
    private static func name(of column: String, in table: String) -> String {
        "\(table).\(column)".lowercased()
    }

    /// Whether nothing has changed.
    var isEmpty: Bool { names == nil && !changesQueue }

    /// Whether the queue changes, in addition to the stored names.
    var changesQueue: Bool { !newTables.isEmpty || !newColumns.isEmpty || !formerTables.isEmpty }

    /// Changes the queue and stores the new names.
    func apply(to queue: QueueTransaction) throws {
        for table in formerTables { try removeOperations(of: table, queue) }
        for table in newTables { try queueRows(of: table, queue) }
        for (table, columns) in newColumns { try queueValues(of: columns, in: table, queue) }
        guard let names else { return }
        let row: Row = [
            "id": Self.id, "key": "local", "keyType": 3, "table": "", "value": .string(names),
        ]
        try queue.store.put([row], in: SystemTables.config)
    }

    /// Removes the operations of a table, their errors, and the records of its lost rows; the rows
    /// stay unchanged.
    ///
    /// Operations of other tables that were parked together with one of these operations are sent
    /// again.
    private func removeOperations(of table: String, _ queue: QueueTransaction) throws {
        for operation in try queue.reader.operations() where operation.table == table {
            if operation.state == .parked { try queue.release(with: operation) }
            try queue.remove(operation)
        }
        for record in try queue.reader.lostRecords.all(in: table) {
            try queue.lostRecords.remove(table, record.itemID)
        }
    }

    /// Queues an insert for each row that has no operation.
    ///
    /// If an earlier version of the app synchronized the table, the server already has some of the
    /// rows. Each of these rows is queued as an update that is based on the row's version. The
    /// update sends all columns, because it is not known which of them have changed. Rows that were
    /// deleted on the device in the meantime are pulled again.
    private func queueRows(of table: String, _ queue: QueueTransaction) throws {
        let changes = LocalChanges(queue: queue, table: table)
        let accounts = try RowAccounts(queue.reader, table)
        let pending = try queue.reader.pendingIDs(table)
        let knownUntil = try queue.reader.knownCommits.latest(of: table)
        try queue.pullState.resetCursors(of: table)
        try eachRow(of: table, queue) { row, mask in
            guard !pending.contains(ItemKey(row.id)) else { return }
            if row.isFromServer {
                var operation = QueuedOperation(table: table, itemID: row.id, kind: .update)
                operation.sendsWholeRow = true
                operation.basisVersion = row.version
                try queue.append(operation)
            } else {
                try changes.queueInsert(of: row.id, knownUntil: knownUntil)
            }
            try assign(accounts.account(of: row, mask: mask), row.id, in: table, queue)
            try park(row, in: table, changing: nil, queue)
        }
    }

    /// Queues an update for each row that has values in new columns.
    ///
    /// The server does not know the values, so they are removed from the base rows: an operation
    /// sends the values in which a row differs from its base row. A lost row gets no update,
    /// because the app decides whether the row is sent. Earlier pulls did not store the server's
    /// values of these columns, so the queries of the table restart.
    private func queueValues(
        of columns: [String],
        in table: String,
        _ queue: QueueTransaction
    ) throws {
        let accounts = try RowAccounts(queue.reader, table)
        try queue.pullState.resetCursors(of: table)
        for operation in try queue.reader.operations()
        where operation.table == table && operation.damage == nil {
            var changed = operation
            changed.basis.base = operation.basis.base?.without(columns)
            if operation.sendsOnlyChanges {
                changed.edit = operation.edit?.without(columns)
                changed.before = operation.before?.without(columns)
            }
            if changed != operation { try queue.put(changed) }
        }
        let lost = try queue.reader.lostRecords.ids(in: table)
        try eachRow(of: table, queue) { row, mask in
            let columns = columns.filter { !(row[$0] ?? .null).isNull }
            guard !columns.isEmpty, !lost.contains(ItemKey(row.id)) else { return }
            let account = accounts.account(of: row, mask: mask)
            try queueUpdate(of: row, columns, in: table, account, queue)
            try park(row, in: table, changing: Set(columns), queue)
        }
    }

    /// Queues an update that sends a row's values of the given columns.
    ///
    /// No update is queued if the row's last operation sends the whole row and was never attempted.
    ///
    /// The new update is in a separate group from an earlier update. The values therefore remain if
    /// the server wins a conflict of the earlier update, or if the app discards it.
    ///
    /// If the row has operations, the update belongs to the account of those operations; otherwise,
    /// it belongs to `account`.
    private func queueUpdate(
        of row: Row,
        _ columns: [String],
        in table: String,
        _ account: String?,
        _ queue: QueueTransaction
    ) throws {
        var operations = try queue.reader.operations(table, row.id)
        let before = row.without(columns)
        var queue = queue
        if var last = operations.last, last.damage == nil {
            if last.sendsOnlyChanges {
                last.group = last.group ?? queue.makeID()
                if last.state != .attempted { last.seal(before) }
                try queue.put(last)
                operations[operations.count - 1] = last
                queue.group = queue.makeID()
            } else if last.state != .attempted {
                guard last.edit != nil else { return }
                var values = Row()
                for name in columns { values[name] = row[name] }
                last.addToEdit(values)
                return try queue.put(last)
            }
        }
        try LocalChanges(queue: queue, table: table).append(
            QueuedOperation(table: table, itemID: row.id, kind: .update),
            after: operations,
            stored: before
        )
        let owner = operations.isEmpty ? account : operations[0].account
        try assign(owner, row.id, in: table, queue)
    }

    /// Assigns the last operation of a row, which was just queued, to an account.
    private func assign(
        _ account: String?,
        _ id: String,
        in table: String,
        _ queue: QueueTransaction
    ) throws {
        guard account.map(ItemKey.init) != queue.account.id.map(ItemKey.init),
            var operation = try queue.reader.operations(table, id).last
        else { return }
        operation.account = account
        try queue.put(operation)
    }

    /// Parks the last operation of a row if the row breaks a rule, with an error for the app.
    ///
    /// The same app update may have added the rule. `columns` contains the columns that count as
    /// changed; nil means all columns.
    private func park(
        _ row: Row,
        in table: String,
        changing columns: Set<String>?,
        _ queue: QueueTransaction
    ) throws {
        guard let rules = queue.catalog.rules(of: table),
            let violation = rules.check(row, changing: columns),
            var operation = try queue.reader.operations(table, row.id).last,
            operation.state == .pending, operation.damage == nil
        else { return }
        operation.state = .parked
        try queue.put(operation)
        var error = StoredError(
            id: queue.makeID(),
            operation: operation,
            statusCode: nil,
            message: SyncError.brokenRule(operation, violation),
            item: row,
            serverItem: operation.basis.lastKnown?.row
        )
        error.brokenRule = BrokenRule(
            table: table,
            columns: violation.columns,
            code: violation.code
        )
        try queue.removeErrors(of: operation.id)
        try queue.store.put([error.row], in: SystemTables.errors)
    }

    /// Calls `body` with each row of a table and its membership mask, ordered by id.
    private func eachRow(
        of table: String,
        _ queue: QueueTransaction,
        _ body: (_ row: Row, _ mask: Int64) throws -> Void
    ) throws {
        var last: Value?
        while true {
            var query = TableQuery(filter: last.map { .greater(SystemColumn.id, $0) })
            query.order = [SortKey(column: SystemColumn.id)]
            query.limit = Self.rowsAtOnce
            let rows = try queue.unmasked.inner.rows(query, in: table)
            for masked in rows {
                var row = masked
                row[MembershipMask.name] = nil
                try body(row, MembershipMask.bits(masked) ?? 0)
            }
            guard rows.count == Self.rowsAtOnce else { return }
            last = rows.last?[SystemColumn.id]
        }
    }
}

extension Row {
    /// Returns the row without the given columns.
    fileprivate func without(_ columns: [String]) -> Row {
        var row = self
        for name in columns { row[name] = nil }
        return row
    }
}

extension QueuedOperation {
    /// Whether the operation is an update that does not send the whole row.
    fileprivate var sendsOnlyChanges: Bool { kind == .update && !sendsWholeRow && !revives }
}

extension SyncEngine {
    /// Changes the queue if an app update changed which tables and columns stay on the device.
    ///
    /// - Throws: ``SyncError`` with code `storeFailure` if the queue must change but cannot be
    ///   stored.
    func takeOverLocalNames() async throws {
        let changes = try await read { try LocalNameChanges($0) }
        guard !changes.isEmpty else { return }
        // Another process may have changed the store in the meantime.
        let apply: @Sendable (QueueTransaction) throws -> Void = { queue in
            try LocalNameChanges(queue.reader).apply(to: queue)
        }
        if changes.changesQueue {
            try await transaction(apply)
        } else {
            // An app can open its store even if the disk is full; the names are then stored the
            // next time.
            try? await transaction(apply)
        }
    }
}
