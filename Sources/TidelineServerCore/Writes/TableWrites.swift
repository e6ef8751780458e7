// TableWrites: the verbs that change rows, in three steps:
//
//     prepare: request -> write          perform: writes -> outcomes          answer: outcome -> answer
//
// A batch prepares all its writes, performs them together, and answers each.

import TidelineCore

/// A write that may be done, with the request that it came by.
final class PreparedWrite: Sendable {
    let call: TableCall
    let write: WriteBatch.Write
    /// Why it is not done, if it can only be answered as a repeat.
    let refusal: ServerError?

    init(call: TableCall, write: WriteBatch.Write, refusal: ServerError? = nil) {
        self.call = call
        self.write = write
        self.refusal = refusal
    }

    var operation: WriteOperation { write.operation }
    var table: Table { write.table }
}

extension TableService {
    /// Answers one request that changes a row.
    func write(
        _ call: TableCall,
        table name: String,
        id: String?
    ) async throws -> ServerResponse {
        let write = try await prepare(call, table: name, id: id)
        let batch = AnswerRoom.ofBatch
        let room = batch ?? AnswerRoom(in: settings.traffic.writeAnswers)
        let outcomes = await perform([PreparedGroup([write])], budget: AnswerBudget(room: room))
        var answer: ServerResponse
        switch outcomes.first {
        case .done(let writes)? where !writes.isEmpty: answer = try self.answer(write, writes[0])
        case .refused(_, let outcome)?: answer = try self.answer(write, outcome)
        case .failed(_, let error)?: throw error
        default: throw ServerError.notCommitted
        }
        if batch == nil { answer.share = room.share }
        return answer
    }

    // MARK: - Preparing

    /// Reads a request that changes a row: permission, body, conditions, view.
    ///
    /// Reads no row. A thrown error is the request's answer. `grown` has the columns that earlier
    /// writes of its group add.
    func prepare(
        _ call: TableCall,
        table name: String,
        id: String?,
        grown: GrownTables = GrownTables()
    ) async throws -> PreparedWrite {
        if id == Self.digestName { throw ServerError.methodNotAllowed(digestMethods(name)) }
        if let id { try Self.check(id: id) }
        try await lookUp(name)
        try checkPermission(call, name, isRow: id != nil)
        var write: WriteBatch.Write
        do {
            write = try requested(call, name, id, grown)
        } catch let refusal as ServerError where [400, 413].contains(refusal.status) {
            if let repeated = try await repeated(call, name, id, refusal) { return repeated }
            throw refusal
        }
        write.operation.view = try await view(of: write.table, for: call.user, at: call.now)
        write.operation.mayRead = mayRead(write.table, call.user)
        write.operation.keepsRowInLedger = write.table.definition.tombstones == .full
        write.operation.staysInView = write.table.hooks?.rowFilter != nil
        if write.table.definition.audit { write.operation.author = WriteAuthor(call) }
        setOwner(&write.operation, call.user, write.table)
        write.repeatKey = try call.repeatKey(table: write.table.name, id: id)
        return PreparedWrite(call: call, write: write)
    }

    /// The write that the request asks for, by its verb and body.
    private func requested(
        _ call: TableCall,
        _ name: String,
        _ id: String?,
        _ grown: GrownTables
    ) throws -> WriteBatch.Write {
        switch (call.request.method, id) {
        case ("POST", nil): try insert(call, name, grown)
        case ("PUT", _): try change(call, .replace, name, id, grown)
        case ("DELETE", let id?): try remove(call, try table(named: name, grown), id)
        case ("POST", let id?): try undelete(call, try table(named: name, grown), id)
        default: try change(call, .merge, name, id, grown)
        }
    }

    /// Returns the stored answer to a write whose body was valid when it was done, and would not be now; nil if
    /// the ledger does not have it.
    private func repeated(
        _ call: TableCall,
        _ name: String,
        _ id: String?,
        _ refusal: ServerError
    ) async throws -> PreparedWrite? {
        guard let table = catalog.table(named: name),
            let key = try? call.repeatKey(table: table.name, id: id),
            try await !store.isNew(key)
        else { return nil }
        let kind: WriteOperation.Kind =
            switch (call.request.method, id) {
            case ("POST", nil): .insert
            case ("PUT", _): .replace
            case ("DELETE", _): .delete
            case ("POST", _): .undelete
            default: .merge
            }
        var operation = WriteOperation(kind, id: try id ?? call.repeatableID() ?? "")
        operation.view = try await view(of: table, for: call.user, at: call.now)
        operation.mayRead = mayRead(table, call.user)
        var write = WriteBatch.Write(operation, in: table)
        write.repeatKey = key
        write.isRepeatOnly = true
        return PreparedWrite(call: call, write: write, refusal: refusal)
    }

    private func insert(
        _ call: TableCall,
        _ name: String,
        _ grown: GrownTables
    ) throws -> WriteBatch.Write {
        try checkBody(call)
        var table = try tableForInsert(named: name, grown)
        var body = RowBody.empty(table)
        if !call.request.body.isEmpty || call.generation == .datasync {
            (body, table) = try self.body(call.request.body, for: table)
        }
        if call.generation == .classic { try Self.refuseReserved(body) }
        var id = body.id ?? ""
        if id.isEmpty {
            id = try call.repeatableID() ?? settings.environment.makeID()
        } else {
            try Self.check(id: id)
        }
        try table.checkAbsent(body.values)
        var operation = WriteOperation(.insert, id: id)
        operation.values = body.values
        return WriteBatch.Write(operation, in: table)
    }

    private func change(
        _ call: TableCall,
        _ kind: WriteOperation.Kind,
        _ name: String,
        _ pathID: String?,
        _ grown: GrownTables
    ) throws -> WriteBatch.Write {
        let isPatch =
            kind == .merge && call.generation == .datasync
            && call.head.bodyType == .patch
        try checkBody(call, isPatch: isPatch)
        var table = try self.table(named: name, grown)
        var body: RowBody
        var patch: JSONPatch?
        if isPatch {
            let read = try self.patch(call.request.body, for: table)
            try checkTests(read, call, table)
            body = read.claims
            patch = read
        } else {
            (body, table) = try self.body(call.request.body, for: table)
        }
        guard let id = pathID ?? body.id else {
            throw ServerError.badRequest("The row's id is missing in path and body.")
        }
        if pathID == nil { try Self.check(id: id) }
        let isOther = body.id.map { !$0.utf8.elementsEqual(id.utf8) } ?? false
        // There it is one of the claims about the stored row, which has to be found first.
        let isClaim = kind == .merge && call.generation == .datasync
        if isOther && !isClaim {
            throw ServerError.badRequest("The id in the body is not that of the path.")
        }
        if kind == .replace { try table.checkAbsent(body.values) }
        var operation = WriteOperation(kind, id: id)
        operation.values = body.values
        operation.patch = patch
        operation.includesDeleted = call.includesDeleted
        operation.softDelete = table.definition.softDelete
        operation.conflict = conflictRule(of: table, for: call.user)
        operation.conditions = try Preconditions(call.head.conditions)
        if kind == .replace { operation.deleted = body.deleted ?? false }
        if call.generation == .classic {
            if kind == .merge { try Self.refuseReserved(body) }
            operation.expectedVersion = body.version
        } else if kind == .merge {
            operation.deleted = body.deleted
            operation.claimsOther = isOther || body.hasNullClaim
            operation.claimedVersion = body.version
            operation.claimedUpdatedAt = try body.updatedAt.map(Self.claimedTime)
        }
        if operation.deleted == true { try checkDelete(call, table) }
        return WriteBatch.Write(operation, in: table)
    }

    private func remove(
        _ call: TableCall,
        _ table: Table,
        _ id: String
    ) throws -> WriteBatch.Write {
        var operation = WriteOperation(.delete, id: id)
        operation.conditions = try Preconditions(call.head.conditions)
        operation.softDelete = table.definition.softDelete
        operation.conflict = conflictRule(of: table, for: call.user)
        return WriteBatch.Write(operation, in: table)
    }

    private func undelete(
        _ call: TableCall,
        _ table: Table,
        _ id: String
    ) throws -> WriteBatch.Write {
        var operation = WriteOperation(.undelete, id: id)
        operation.conflict = conflictRule(of: table, for: call.user)
        operation.conditions = try Preconditions(call.head.conditions)
        return WriteBatch.Write(operation, in: table)
    }

    // MARK: - Answering

    /// The answer to a write by what became of it.
    func answer(_ write: PreparedWrite, _ outcome: WriteOutcome) throws -> ServerResponse {
        if let refusal = write.refusal, outcome.repeatedID == nil { throw refusal }
        if rates != nil, outcome.changesRow { charge(write, outcome) }
        guard write.write.repeatKey != nil else { return try plainAnswer(write, outcome) }
        do {
            return try plainAnswer(write, outcome).accepted()
        } catch let error as ServerError {
            throw error.accepted()
        }
    }

    /// Charges the caller for the bytes that a write caused beyond those that were sent: the row, the
    /// version before it, and the entries of ledger and audit.
    private func charge(_ write: PreparedWrite, _ outcome: WriteOutcome) {
        let row = outcome.row?.json.count ?? 0
        let table = write.table
        var bytes = row
        if write.write.repeatKey != nil {
            bytes +=
                LedgerRules.entryBytes
                + (LedgerRules.kept(outcome.row, of: write.operation)?.count ?? 0)
        }
        let isChange = write.operation.kind != .insert
        if isChange, table.definition.conflict == .merge { bytes += row }
        if isChange, table.hooks?.rowFilter != nil { bytes += row }
        if table.definition.audit { bytes += AuditEntry.usualBytes }
        bytes = max(0, bytes - write.call.request.body.count)
        charge(bytes: bytes, of: write.call.request, write.call.user)
    }

    private func plainAnswer(
        _ write: PreparedWrite,
        _ outcome: WriteOutcome
    ) throws -> ServerResponse {
        let (call, operation, table) = (write.call, write.operation, write.table)
        switch outcome.decision {
        case .missing: throw ServerError.noSuchRow
        case .taken: return ServerResponse(status: 409)
        case .gone: throw tombstone(call)
        case .systemChange: throw ServerError.systemChange
        case .outdated, .merge: throw ServerError.notCommitted
        case .refused: throw outcome.refusal ?? ServerError.notCommitted
        case .remove: return ServerResponse(status: 204)
        case .update where outcome.isInPlaceOfDelete: return conflict(412, outcome, call, table)
        case .update where operation.kind == .delete: return ServerResponse(status: 204)
        case .exists, .versionMismatch, .testFailed: return conflict(409, outcome, call, table)
        case .preconditionFailed: return conflict(412, outcome, call, table)
        case .insert:
            var answer = rowAnswer(201, outcome.row)
            let id = outcome.repeatedID ?? operation.id
            answer.headers.append("Location", location(call, table.name, id))
            return answer
        case .update, .keepStored:
            // Also of a PUT: the time when the row was made is not the caller's.
            let row = mayRead(table, call.user) ? outcome.row : outcome.row?.stub(operation.id)
            var answer = rowAnswer(operation.kind == .undelete ? 201 : 200, row)
            if outcome.isResolved || outcome.decision == .keepStored {
                answer.headers.append("Tideline-Conflict", "resolved")
            }
            return answer
        }
    }

    /// The stored row, but for a caller who may not read it.
    private func conflict(
        _ status: Int,
        _ outcome: WriteOutcome,
        _ call: TableCall,
        _ table: Table
    ) -> ServerResponse {
        rowAnswer(status, mayRead(table, call.user) ? outcome.row : nil)
    }

    private static func claimedTime(_ text: String) throws -> Int64 {
        guard let stamp = Timestamp(text) else { throw ServerError.systemChange }
        return stamp.microseconds
    }

    private static func refuseReserved(_ body: RowBody) throws {
        guard let name = body.reserved.first else { return }
        throw ServerError.badRequest("Member '\(name)' is set by the server; leave it out.")
    }
}
