// WriteRoutes: the methods that change rows, in three steps:
//
//     prepare: request -> write          perform: writes -> outcomes          answer: outcome -> answer
//
// A batch prepares all its writes, performs them together, and answers each.

import TidelineCore

/// A valid write with its request.
final class PreparedWrite: Sendable {
    let call: TableCall
    let write: WriteBatch.Write
    /// The error to throw unless the idempotency ledger answers the write; nil for a valid request.
    let rejection: ServerError?

    init(call: TableCall, write: WriteBatch.Write, rejection: ServerError? = nil) {
        self.call = call
        self.write = write
        self.rejection = rejection
    }

    var operation: WriteOperation { write.operation }
    var table: Table { write.table }
}

/// The routes that change rows.
struct WriteRoutes {
    let service: TableService

    /// Answers one request that changes a row.
    func write(
        _ call: TableCall,
        table name: String,
        id: String?
    ) async throws -> ServerResponse {
        let write = try await prepare(call, table: name, id: id)
        let batch = AnswerReservation.ofBatch
        let reservation = batch ?? AnswerReservation(in: service.settings.traffic.writeAnswers)
        let outcomes = await perform(
            [PreparedGroup([write])],
            budget: AnswerBudget(reservation: reservation)
        )
        var answer: ServerResponse
        switch outcomes.first {
        case .done(let writes)? where !writes.isEmpty: answer = try self.answer(write, writes[0])
        case .rejected(_, let outcome)?: answer = try self.answer(write, outcome)
        case .failed(_, let error)?: throw error
        case .done?, .dependencyFailed?, .notReached?, nil: throw ServerError.notCommitted
        }
        if batch == nil { answer.share = reservation.share }
        return answer
    }

    // MARK: - Preparing

    /// Checks and reads a request that changes a row: permission, body, conditions, visibility.
    ///
    /// No row is read. A thrown error is the request's answer. `grown` contains the columns that earlier writes
    /// of the group add.
    func prepare(
        _ call: TableCall,
        table name: String,
        id: String?,
        grown: GrownTables = GrownTables()
    ) async throws -> PreparedWrite {
        // A server that ignored the preference would do what the caller only asks about.
        if call.head.preferences.wantsDryRun { throw ServerError.dryRunAlone }
        if id == DigestRoute.name {
            throw ServerError.methodNotAllowed(service.access.digestMethods(name))
        }
        if let id { try ItemID.check(id) }
        try await service.lookUp(name)
        try service.access.checkPermission(call, name, isRow: id != nil)
        var write: WriteBatch.Write
        do {
            write = try requested(call, name, id, grown)
        } catch let rejection as ServerError where [400, 413].contains(rejection.status) {
            if let repeated = try await repeated(call, name, id, rejection) { return repeated }
            throw rejection
        }
        write.operation.view = try await write.table.view(for: call.user, at: call.now)
        write.operation.mayRead = service.access.mayRead(write.table, call.user)
        write.operation.keepsRowInLedger = write.table.definition.tombstones == .full
        write.operation.staysInView = write.table.hooks?.rowFilter != nil
        if write.table.definition.audit { write.operation.author = WriteAuthor(call) }
        service.access.setOwner(&write.operation, call.user, write.table)
        write.operation.references = try await service.references(
            of: write.operation,
            in: write.table,
            for: call.user,
            author: WriteAuthor(call),
            at: call.now
        )
        write.repeatKey = try call.repeatKey(table: write.table.name, id: id)
        return PreparedWrite(call: call, write: write)
    }

    /// Returns the write of a request, from its method and body.
    private func requested(
        _ call: TableCall,
        _ name: String,
        _ id: String?,
        _ grown: GrownTables
    ) throws -> WriteBatch.Write {
        switch (call.request.method, id) {
        case ("POST", nil): try insert(call, name, grown)
        case ("PUT", _): try change(call, .replace, name, id, grown)
        case ("DELETE", let id?): try remove(call, try service.table(named: name, grown), id)
        case ("POST", let id?): try undelete(call, try service.table(named: name, grown), id)
        default: try change(call, .merge, name, id, grown)
        }
    }

    /// Prepares a write to be answered from the ledger, because its body was valid when it was executed but is
    /// not valid now.
    ///
    /// Nil if the request has no key, or if the key is new.
    private func repeated(
        _ call: TableCall,
        _ name: String,
        _ id: String?,
        _ rejection: ServerError
    ) async throws -> PreparedWrite? {
        guard let table = service.catalog.table(named: name),
            let key = try? call.repeatKey(table: table.name, id: id),
            try await !service.store.isNew(key)
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
        operation.view = try await table.view(for: call.user, at: call.now)
        operation.mayRead = service.access.mayRead(table, call.user)
        var write = WriteBatch.Write(operation, in: table)
        write.repeatKey = key
        write.isRepeatOnly = true
        return PreparedWrite(call: call, write: write, rejection: rejection)
    }

    private func insert(
        _ call: TableCall,
        _ name: String,
        _ grown: GrownTables
    ) throws -> WriteBatch.Write {
        try call.checkBody()
        var table = try service.tableForInsert(named: name, grown)
        var body: RowBody
        if call.request.body.isEmpty, call.generation == .classic {
            body = .empty(table)
        } else {
            (body, table) = try service.body(call.request.body, for: table)
        }
        if call.generation == .classic { try Self.rejectReserved(body) }
        var id = body.id ?? ""
        if id.isEmpty {
            id = try call.repeatableID() ?? service.settings.environment.makeID()
        } else {
            try ItemID.check(id)
        }
        try body.chooseSet(in: table)
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
        try call.checkBody(isPatch: isPatch)
        var table = try service.table(named: name, grown)
        var body: RowBody
        var patch: JSONPatch?
        if isPatch {
            let read = try service.patch(call.request.body, for: table)
            try service.access.checkTests(read, call, table)
            body = read.claims
            patch = read
        } else {
            (body, table) = try service.body(call.request.body, for: table)
        }
        guard let id = pathID ?? body.id else {
            throw ServerError.badRequest(
                "The row's id is missing. Send it in the path or the body."
            )
        }
        if pathID == nil { try ItemID.check(id) }
        let isOther = body.id.map { !$0.utf8.elementsEqual(id.utf8) } ?? false
        // A datasync PATCH treats the id as one of the claims about the stored row, which is read first.
        let isClaim = kind == .merge && call.generation == .datasync
        if isOther && !isClaim {
            throw ServerError.badRequest("The id in the body differs from the id in the path.")
        }
        if kind == .replace { try table.checkAbsent(body.values) }
        if let changed = call.parameters.changedMembers { try body.choose(changed, in: table) }
        // A hook sees one value, and a caller who may not read must not learn which one is stored.
        if table.hooks?.surroundWrites == true || !service.access.mayRead(table, call.user) {
            try body.rejectAlternatives(table)
        }
        var operation = WriteOperation(kind, id: id)
        operation.values = body.values
        operation.alternatives = body.alternatives
        operation.patch = patch
        operation.includesDeleted = call.includesDeleted
        operation.softDelete = table.definition.softDelete
        operation.conflict = service.access.conflictRule(of: table, for: call.user)
        operation.conditions = try Preconditions(call.head.conditions)
        if kind == .replace { operation.deleted = body.deleted ?? false }
        if call.generation == .classic {
            if kind == .merge { try Self.rejectReserved(body) }
            operation.expectedVersion = body.version
        } else if kind == .merge {
            operation.deleted = body.deleted
            operation.claimsOther = isOther || body.hasNullClaim
            operation.claimedVersion = body.version
            operation.claimedUpdatedAt = try body.updatedAt.map(Self.claimedTime)
        }
        if operation.deleted == true { try service.access.checkDelete(call, table) }
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
        operation.conflict = service.access.conflictRule(of: table, for: call.user)
        return WriteBatch.Write(operation, in: table)
    }

    private func undelete(
        _ call: TableCall,
        _ table: Table,
        _ id: String
    ) throws -> WriteBatch.Write {
        var operation = WriteOperation(.undelete, id: id)
        operation.conflict = service.access.conflictRule(of: table, for: call.user)
        operation.conditions = try Preconditions(call.head.conditions)
        return WriteBatch.Write(operation, in: table)
    }

    // MARK: - Answering

    /// Returns the answer to a write for an outcome.
    func answer(_ write: PreparedWrite, _ outcome: WriteOutcome) throws -> ServerResponse {
        if let rejection = write.rejection, outcome.repeatedID == nil { throw rejection }
        if service.callers.rates != nil, outcome.changesRow { charge(write, outcome) }
        guard write.write.repeatKey != nil else { return try plainAnswer(write, outcome) }
        do {
            var answer = try plainAnswer(write, outcome)
            answer.headers.append("Repeatability-Result", "accepted")
            return answer
        } catch let error as ServerError {
            throw error.accepted()
        }
    }

    /// Charges the caller for the bytes that a write caused in addition to its body.
    ///
    /// These are the row, its former version, and the entries of ledger and audit log.
    private func charge(_ write: PreparedWrite, _ outcome: WriteOutcome) {
        let row = outcome.row?.json.count ?? 0
        let table = write.table
        var bytes = row
        if write.write.repeatKey != nil {
            bytes +=
                LedgerRules.entryBytes
                + (LedgerRules.storedRow(outcome.row, of: write.operation)?.count ?? 0)
        }
        let isChange = write.operation.kind != .insert
        if isChange, table.definition.conflict == .merge { bytes += row }
        if isChange, table.hooks?.rowFilter != nil { bytes += row }
        if table.definition.audit { bytes += AuditEntry.usualBytes }
        bytes = max(0, bytes - write.call.request.body.count)
        service.callers.charge(bytes: bytes, of: write.call.request, write.call.user)
    }

    private func plainAnswer(
        _ write: PreparedWrite,
        _ outcome: WriteOutcome
    ) throws -> ServerResponse {
        let (call, operation, table) = (write.call, write.operation, write.table)
        switch outcome.decision {
        case .missing: throw ServerError.noSuchRow
        case .taken: return ServerResponse(status: 409)
        case .gone: throw call.tombstone
        case .systemChange: throw ServerError.systemChange
        case .outdated, .merge: throw ServerError.notCommitted
        case .rejected: throw outcome.rejection ?? ServerError.notCommitted
        case .remove: return ServerResponse(status: 204)
        case .update where outcome.isInPlaceOfDelete: return conflict(412, outcome, call, table)
        case .update where operation.kind == .delete: return ServerResponse(status: 204)
        case .exists, .versionMismatch, .testFailed: return conflict(409, outcome, call, table)
        case .preconditionFailed: return conflict(412, outcome, call, table)
        case .insert:
            var answer = service.answers.row(201, outcome.row)
            let id = outcome.repeatedID ?? operation.id
            answer.headers.append(
                "Location",
                service.answers.location(call, table.name, id)
            )
            noteResolved(outcome, in: &answer)
            return answer
        case .update, .keepStored:
            // Also of a PUT: the time when the row was made is not the caller's.
            let row =
                service.access.mayRead(table, call.user)
                ? outcome.row : outcome.row?.stub(operation.id)
            var answer = service.answers.row(
                operation.kind == .undelete ? 201 : 200,
                row
            )
            noteResolved(outcome, in: &answer)
            return answer
        }
    }

    /// Adds the header for a row that may contain values from another writer.
    private func noteResolved(_ outcome: WriteOutcome, in answer: inout ServerResponse) {
        guard outcome.isResolved || outcome.decision == .keepStored else { return }
        answer.headers.append("Tideline-Conflict", "resolved")
    }

    /// Returns the rejection for a conflict, with the stored row if the caller may read it.
    private func conflict(
        _ status: Int,
        _ outcome: WriteOutcome,
        _ call: TableCall,
        _ table: Table
    ) -> ServerResponse {
        service.answers.row(
            status,
            service.access.mayRead(table, call.user) ? outcome.row : nil
        )
    }

    private static func claimedTime(_ text: String) throws -> Int64 {
        guard let timestamp = Timestamp(text) else { throw ServerError.systemChange }
        return timestamp.microseconds
    }

    private static func rejectReserved(_ body: RowBody) throws {
        guard let name = body.reserved.first else { return }
        throw ServerError.badRequest("Member '\(name)' is set by the server. Leave it out.")
    }
}
