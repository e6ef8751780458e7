// RemoteTable: a table on the server. Every method sends requests.

import Foundation
import TidelineCore

/// A table on the server.
///
/// Calls bypass the local store and the operation queue, so every call fails while the device is offline. All errors
/// are ``SyncError``. Every call can throw these codes: `offline` if no response arrived, including because of an
/// untrusted certificate; `unauthorized`, `forbidden`, `tooManyRequests`, `serverError`, `badRequest` and
/// `badResponse`, depending on the response; `insecureEndpoint` before anything is sent; and `cancelled`. After
/// `offline` or `cancelled`, the server may have applied the change: read the record before you retry.
///
/// Columns that stay on the device (``SyncRecord/localColumns``) are neither sent nor read. Records that inserts and
/// updates return keep the caller's values of these columns; other records have the defaults. Every call for a record
/// type that stays on the device (``SyncRecord/isLocalOnly``) throws `unsupportedQuery` before anything is sent.
///
/// ```swift
/// let remote = client.table(TodoItem.self)
/// let item = try await remote.insert(TodoItem(text: "Buy milk"))
/// try await remote.update(id: item.id) { $0.complete = true }
/// ```
public struct RemoteTable<Record: Sendable>: ReadableTable {
    private let remote: @Sendable () throws -> RemoteService
    private let projected: ProjectedRows
    private let coder: @Sendable () throws -> RecordCoder<Record>

    init(
        remote: @escaping @Sendable () throws -> RemoteService,
        projected: ProjectedRows,
        coder: @escaping @Sendable () throws -> RecordCoder<Record>
    ) {
        self.remote = remote
        self.projected = projected
        self.coder = {
            let coder = try coder()
            try coder.table.checkIsOnServer()
            return coder
        }
    }

    /// Stores a new record on the server.
    ///
    /// An empty id is replaced by a new lowercase UUID.
    ///
    /// - Throws: ``SyncError`` with code `conflict` if the server already has a row with this id, which is the error's
    ///   `serverItem`, or if the server does not have a parent that the row refers to, in which case `brokenReference`
    ///   is set; `ruleBroken` if the row breaks a rule of the server; `rowDoesNotFit` or `invalidID` before anything is
    ///   sent; or an error that every call can throw.
    @discardableResult
    @concurrent
    public func insert(_ record: Record) async throws -> Record {
        let (coder, remote) = (try coder(), try remote())
        let row = try coder.encode(record)
        try RowCheck.check(row, table: coder.table.name)
        try projected.projection(of: row, coder, nil)?.check(insert: row)
        let id = row.id.isEmpty ? remote.environment.makeID() : row.id
        try ItemID.check(id)
        var body: Row = ["id": .string(id)]
        for (name, value) in RowMerge.payload(coder.table.synced(row)) { body[name] = value }
        return try await item("POST", id: nil, body: body, of: row, coder, remote)
    }

    /// Changes a record on the server.
    ///
    /// If the record has a `version`, it must match the server's.
    ///
    /// Every column is sent with the record's value. ``update(id:_:)`` sends only the columns that differ. If the
    /// record has nested values, the row is read first, so that members unknown to the model are kept. A record that
    /// was read with ``Query/selecting(_:)`` throws `partialRecord` if the row has different values in columns that
    /// were not read.
    ///
    /// - Throws: ``SyncError`` with code `notFound`; `conflict` if the server has a different version, which is the
    ///   error's `serverItem`, or if the server does not have a parent that the row refers to, in which case
    ///   `brokenReference` is set; `ruleBroken` if the row breaks a rule of the server; `rowDoesNotFit` or `invalidID`
    ///   before anything is sent; or an error that every call can throw.
    @discardableResult
    @concurrent
    public func update(_ record: Record) async throws -> Record {
        let (coder, remote) = (try coder(), try remote())
        let row = try coder.encode(record)
        try RowCheck.check(row, table: coder.table.name)
        try ItemID.check(row.id)
        let sent = RowMerge.payload(coder.table.synced(row))
        var body = sent
        let projection = projected.projection(of: row, coder, nil)
        guard projection != nil || body.contains(where: { $0.value.isObjectOrArray }) else {
            return try await item(
                "PATCH",
                id: row.id,
                version: row.version,
                body: body,
                of: row,
                coder,
                remote
            )
        }
        var attempts = 0
        while true {
            let stored = try Self.checked(try await send("GET", id: row.id, remote), coder, remote)
            let known = (try? coder.decode(stored)).flatMap { try? coder.encode($0) }
            try projection?.check(update: row, of: known ?? stored)
            for (name, value) in sent {
                body[name] = (stored[name] ?? .null)
                    .applying(from: known?[name], to: value, ofModel: true)
            }
            do {
                return try await item(
                    "PATCH",
                    id: row.id,
                    version: row.version ?? stored.version,
                    body: body,
                    of: row,
                    coder,
                    remote
                )
            } catch let error as SyncError
                where error.code == .conflict && error.brokenReference == nil && row.version == nil
                && attempts < Self.attemptsMax
            {
                // Another caller has changed the row since it was read, and the record has no version to match.
                attempts += 1
            }
        }
    }

    private static var attemptsMax: Int { 5 }

    /// Reads a record, changes it and stores it, unless another caller changed it in the meantime.
    ///
    /// - Throws: ``SyncError`` with code `notFound` if the row does not exist or is deleted; `conflict` if another
    ///   caller changed it in the meantime, in which case a second call may succeed, or if the server does not have a
    ///   parent that the row refers to, in which case `brokenReference` is set; `ruleBroken` if the row breaks a rule
    ///   of the server; `rowDoesNotFit`; or an error that every call can throw. Errors of `change` are rethrown;
    ///   nothing is written in that case.
    @discardableResult
    public func update(
        id: String,
        _ change: (inout Record) throws -> Void
    ) async throws -> Record {
        let (read, stored, before) = try await decoded(id)
        var record = read
        try change(&record)
        return try await send(record, over: before, stored)
    }

    /// Returns a record from the server with its row and its encoded form.
    @concurrent
    private func decoded(_ id: String) async throws -> (read: Record, stored: Row, before: Row) {
        let (coder, remote) = (try coder(), try remote())
        let stored = try Self.checked(try await send("GET", id: id, remote), coder, remote)
        let record = try coder.decode(stored)
        return (record, stored, try coder.encode(record))
    }

    /// Sends the columns in which a record differs from the server's row.
    @concurrent
    private func send(_ record: Record, over before: Row, _ stored: Row) async throws -> Record {
        let (coder, remote) = (try coder(), try remote())
        let after = try coder.encode(record)
        let schema = coder.table
        var changes = RowMerge.changes(from: schema.synced(before), to: schema.synced(after))
        try RowCheck.checkIsLive(after, table: coder.table.name)
        try RowCheck.check(changes, table: coder.table.name, id: before.id)
        for (name, value) in changes {
            changes[name] = (stored[name] ?? .null)
                .applying(from: before[name], to: value, ofModel: true)
        }
        return try await item(
            "PATCH",
            id: before.id,
            version: stored.version,
            body: changes,
            of: after,
            coder,
            remote
        )
    }

    /// Deletes a record on the server.
    ///
    /// If the record has a `version`, it must match the server's.
    ///
    /// - Throws: ``SyncError`` with code `notFound` if the row does not exist or is already deleted; `conflict` if the
    ///   server has a different version; `rowIsReferenced` if other rows refer to the row by a reference with the rule
    ///   `restrict`, in which case `brokenReference` is set; `invalidID`; or an error that every call can throw.
    @concurrent
    public func delete(_ record: Record) async throws {
        let row = try coder().encode(record)
        try await delete(row.id, version: row.version)
    }

    /// Deletes the record with an id, whatever its version.
    ///
    /// - Throws: ``SyncError`` with code `notFound` if the row does not exist or is already deleted; `rowIsReferenced`
    ///   if other rows refer to the row by a reference with the rule `restrict`, in which case `brokenReference` is
    ///   set; `invalidID`; or an error that every call can throw.
    @concurrent
    public func delete(id: String) async throws { try await delete(id, version: nil) }

    private func delete(_ id: String, version: String?) async throws {
        let (coder, remote) = (try coder(), try remote())
        try ItemID.check(id)
        let response = try await send("DELETE", id: id, version: version, remote)
        // The server answers without a body. If there is a body, it must contain the row.
        if (200..<300).contains(response.status), response.body.isEmpty {
            // A captive portal may send the same status, so a query of the table shows whether the row is gone.
            if AnswerProof.isServers(response) { return }
            if try await isGone(id, coder, remote) { return }
            throw Self.unexpected(response, coder, remote)
        }
        _ = try Self.checked(response, coder, remote)
    }

    /// Returns whether the row is missing from the server's table, or is deleted there.
    private func isGone(
        _ id: String,
        _ coder: RecordCoder<Record>,
        _ remote: RemoteService
    ) async throws -> Bool {
        let query = TableQuery(filter: .equal(SystemColumn.id, .string(id)))
        let schema = coder.table
        let answer = try await Self.reached {
            try await remote.send { dialect in
                let text = try query.wireText(schema, dialect)
                let url = try remote.endpoint.url(schema.name, query: "?" + text)
                return RemoteService.Request(method: "GET", url: url)
            }
        }.response
        guard answer.status == 200, let page = PulledPage(answer, schema: schema),
            Self.isServers(answer, page, remote)
        else { throw Self.noPage(answer, coder, remote) }
        return !page.rows.contains {
            ItemKey($0.id) == ItemKey(id) && $0[SystemColumn.deleted] != true
        }
    }

    private static func isServers(
        _ response: TransportResponse,
        _ page: PulledPage,
        _ remote: RemoteService
    ) -> Bool {
        AnswerProof.isServersPage(
            headers: response.headers,
            hasRows: page.rowCount > 0,
            signs: remote.signs.known
        )
    }

    /// Restores a deleted record.
    ///
    /// ```swift
    /// let item = try await client.table(TodoItem.self).undelete(id: milk.id)
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `notFound` if the server never had the row or does not keep deleted rows;
    ///   `conflict`, including if the row refers to a parent that the server does not have; `ruleBroken` if the row
    ///   breaks a rule of the server; `invalidID`; or an error that every call can throw.
    @discardableResult
    @concurrent
    public func undelete(id: String) async throws -> Record {
        try ItemID.check(id)
        let (coder, remote) = (try coder(), try remote())
        let url = try remote.endpoint.url(coder.table.name, id: id)
        let answer = try await Self.reached {
            try await remote.send { dialect in
                switch dialect {
                case .classic: RemoteService.Request(method: "POST", url: url)
                case .datasync:
                    RemoteService.Request(
                        method: "PATCH",
                        url: url,
                        body: Array(RowText.json(["deleted": false]).text.utf8)
                    )
                }
            }
        }
        return try coder.decode(try Self.checked(answer.response, coder, remote))
    }

    /// Returns the record with an id, or nil if it does not exist or is deleted.
    ///
    /// - Throws: ``SyncError`` with code `rowDoesNotFit`, `invalidID`, or an error that every call can
    ///   throw; never `notFound`.
    @concurrent
    public func read(id: String) async throws -> Record? {
        let (coder, remote) = (try coder(), try remote())
        try ItemID.check(id)
        let response = try await send("GET", id: id, remote)
        if response.status == 404 || response.status == 410 {
            if AnswerProof.isServers(response) { return nil }
            // A proxy that does not know the path sends the same status.
            if try await isGone(id, coder, remote) { return nil }
            throw Self.unexpected(response, coder, remote)
        }
        return try coder.decode(try Self.checked(response, coder, remote))
    }

    /// Returns the records of a query, from all pages.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` if the query cannot be written as OData; `rowDoesNotFit`,
    ///   unless `onDecodingFailure` skips such rows; `notFound` if the server does not have the table; `badResponse`,
    ///   including for a link to another origin; or an error that every call can throw. The pages read before an error
    ///   are discarded.
    @concurrent
    public func read(
        _ query: Query<Record>,
        onDecodingFailure: DecodingFailurePolicy
    ) async throws -> Page<Record> {
        try query.table.checkWindow()
        let (coder, remote) = (try coder(), try remote())
        var pages = RemotePages(query: query.table, schema: coder.table, remote: remote)
        var items: [Record] = []
        var total: Int?
        for _ in 0..<remote.limits.pagesMax {
            let request = pages
            let answer = try await Self.reached { try await remote.send { try request.next($0) } }
            let response = answer.response
            guard response.status == 200, let page = PulledPage(response, schema: coder.table),
                Self.isServers(response, page, remote)
            else {
                throw Self.noPage(response, coder, remote)
            }
            // The original Node server treats a limit of zero as no limit.
            let rows = page.rows.prefix(pages.rowsLeft).map { coder.table.synced($0) }
            items += try coder.decode(rows, onDecodingFailure: onDecodingFailure)
            projected.handOut(rows, selecting: query.table.select, coder)
            total = total ?? page.count
            guard try pages.advance(past: page, answer.dialect) else { break }
        }
        return Page(items: items, totalCount: total)
    }

    /// Returns the number of records that a query matches, ignoring its limit and offset.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery`; `notFound` if the server does not
    ///   have the table; `badResponse` if it sends no count; or an error that every call can throw.
    @concurrent
    public func count(_ query: Query<Record>) async throws -> Int {
        var counting = Query<Record>(TableQuery(filter: query.filter))
        counting.parameters = query.parameters
        counting.includesDeleted = query.includesDeleted
        counting.includesTotalCount = true
        counting.limit = 0
        guard let count = try await read(counting).totalCount else {
            throw SyncError(.badResponse, "The server sent no count. Check the endpoint.")
        }
        return count
    }

    private func send(
        _ method: String,
        id: String?,
        version: String? = nil,
        body: Row? = nil,
        _ remote: RemoteService
    ) async throws -> TransportResponse {
        let url = try remote.endpoint.url(try coder().table.name, id: id)
        var headers = HTTPFields()
        headers["If-Match"] = version.map(OperationRequest.quoted)
        let bytes = body.map { Array(RowText.json($0).text.utf8) }
        let request = RemoteService.Request(
            method: method,
            url: url,
            headers: headers,
            body: bytes
        )
        return try await Self.reached { try await remote.send { _ in request } }.response
    }

    /// Sends a change; returns the server's record with the caller's values of local columns.
    private func item(
        _ method: String,
        id: String?,
        version: String? = nil,
        body: Row,
        of row: Row,
        _ coder: RecordCoder<Record>,
        _ remote: RemoteService
    ) async throws -> Record {
        let response = try await send(method, id: id, version: version, body: body, remote)
        var stored = try Self.checked(response, coder, remote)
        for name in coder.table.localColumns { stored[name] = row[name] }
        return try coder.decode(stored)
    }

    private static func reached(
        _ call: () async throws -> RemoteService.Answer
    ) async throws -> RemoteService.Answer {
        do {
            return try await call()
        } catch let error as TransportError {
            throw SyncError.offline(error)
        } catch let error as CancellationError {
            throw SyncError(
                .cancelled,
                "The request was cancelled; the server may have executed it. Read the row before you repeat it.",
                cause: error
            )
        }
    }

    /// Returns the row of a successful response, without local columns; throws an error for any other response.
    private static func checked(
        _ response: TransportResponse,
        _ coder: RecordCoder<Record>,
        _ remote: RemoteService
    ) throws -> Row {
        let item = response.item(coder.table).map { coder.table.synced($0) }
        let (status, table) = (response.status, coder.table.name)
        let reason = item == nil ? response.problem.map { ": \($0)" } ?? "" : ""
        if item == nil, let error = SyncError.rejected(response, table: table) { throw error }
        // If the response has no row, the server's message is more specific.
        let isConflict = item != nil || reason.isEmpty
        switch status {
        case 200..<300:
            guard let item else { throw unexpected(response, coder, remote) }
            return item
        case 400..<500 where !isProven(response, item):
            throw unexpected(response, coder, remote)
        case 401:
            throw SyncError.signInWanted("call of table '\(table)'", reason: response.problem)
        case 404, 410:
            throw SyncError(
                .notFound,
                "The server does not have the row, or does not have table '\(table)'\(reason).",
                statusCode: status
            )
        case 409 where isConflict, 412 where isConflict:
            throw SyncError(
                .conflict,
                "The row has changed on the server. Resolve the conflict with 'serverItem' and send it again.",
                statusCode: status,
                serverItem: item
            )
        case 400..<500:
            throw SyncError(
                SyncError.Code(answer: status),
                "The server rejected the request to table '\(table)' (\(status))\(reason).",
                statusCode: status
            )
        default:
            throw unexpected(response, coder, remote)
        }
    }

    private static func isProven(_ response: TransportResponse, _ item: Row? = nil) -> Bool {
        item?.version != nil || AnswerProof.isServers(response)
            || AnswerProof.wantsSignIn(response)
    }

    /// Returns the error for a response that does not contain a page of rows.
    private static func noPage(
        _ response: TransportResponse,
        _ coder: RecordCoder<Record>,
        _ remote: RemoteService
    ) -> any Error {
        do {
            _ = try checked(response, coder, remote)
        } catch var error as SyncError where error.code == .notFound {
            // A table has a list even if it has no rows, so either the table or the whole server is missing.
            error.message = AnswerOutline(response).message(
                from: remote.endpoint.name,
                to: "the request to table '\(coder.table.name)'"
            )
            return error
        } catch {
            return error
        }
        return unexpected(response, coder, remote)
    }

    private static func unexpected(
        _ response: TransportResponse,
        _ coder: RecordCoder<Record>,
        _ remote: RemoteService
    ) -> SyncError {
        .unexpectedAnswer(
            AnswerOutline(response),
            from: remote.endpoint.name,
            to: "the request to table '\(coder.table.name)'",
            isProven: isProven(response)
        )
    }
}

extension SyncError {
    /// Returns the error for a response that rejects a row because of a rule or a reference; nil for any other.
    fileprivate static func rejected(_ response: TransportResponse, table: String) -> SyncError? {
        guard AnswerProof.isServers(response) else { return nil }
        if let violation = response.violation(response.code) {
            var error = ruleBroken(violation, table: table)
            error.statusCode = response.status
            return error
        }
        guard let reference = BrokenReference(response) else { return nil }
        let code: Code =
            switch reference.reason {
            case .parentNotFound: .conflict
            case .rowIsReferenced: .rowIsReferenced
            }
        let reason = response.problem ?? reference.reason.rawValue
        var error = SyncError(
            code,
            "The server rejected the request to table '\(table)' (\(response.status)): \(reason)",
            statusCode: response.status
        )
        error.brokenReference = reference
        return error
    }
}
