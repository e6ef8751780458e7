// OperationRequest: the request of an operation, which is resent unchanged.
//
// Pure. `POST` inserts a row, `PATCH` sends the columns that differ from the base row, `PUT`
// undeletes a row, and `DELETE` deletes a row. All except inserts have `If-Match` (docs/sync.md).

package import Foundation
package import TidelineCore

/// The frozen request of an operation: its method, headers and body.
package enum OperationRequest {
    /// Returns the headers with the request id and the precondition.
    ///
    /// Because of the id, a repeated request takes effect only once (OASIS Repeatable Requests
    /// 1.0).
    package static func headers(_ frozen: QueuedOperation.Frozen) -> HTTPFields {
        var headers = HTTPFields()
        headers["If-Match"] = frozen.ifMatch
        headers["Repeatability-Request-ID"] = frozen.requestID
        headers["Repeatability-First-Sent"] = frozen.firstSent
        return headers
    }

    /// Returns the body as it is sent.
    ///
    /// The original servers do not accept batches, and check a `version` in the body if a proxy
    /// dropped the header field. If a PATCH has both, they use the header field.
    package static func body(
        _ frozen: QueuedOperation.Frozen,
        _ dialect: ServerDialect
    ) -> String? {
        guard dialect == .classic, frozen.method == "PATCH", let body = frozen.body,
            let tag = frozen.ifMatch, body.hasSuffix("}"), tag.count > 1
        else { return frozen.body }
        let version = tag.dropFirst().dropLast().replacingOccurrences(of: "\\\"", with: "\"")
        let member = RowText.json(["version": .string(version)]).text.dropFirst()
        return body == "{}" ? "{" + member : body.dropLast() + "," + member
    }

    /// Returns the frozen request; nil if an update changes nothing.
    package static func frozen(
        _ operation: QueuedOperation,
        local: Row?,
        basis: RowBasis?,
        schema: TableSchema? = nil,
        requestID: String,
        now: Date
    ) -> QueuedOperation.Frozen? {
        let version = operation.basisVersion ?? basis?.base?.version
        let local = local.map { schema?.synced($0) ?? $0 }
        let basis = basis.map { basis in
            guard let schema else { return basis }
            return RowBasis(base: basis.base.map(schema.synced), latest: basis.latest)
        }
        var frozen = QueuedOperation.Frozen(
            method: "DELETE",
            query: "",
            ifMatch: version.map(quoted),
            requestID: requestID,
            firstSent: HTTPDate.text(microseconds: Timestamp(now).microseconds),
            body: nil,
            sentRow: local
        )
        switch operation.kind {
        case .delete:
            // Without a version it is not known whether an insert arrived, so the row is read
            // first.
            guard version != nil || basis?.base != nil || operation.outcomeUnknown else {
                return nil
            }
            frozen.sentRow = nil
        case .insert:
            guard let local else { return nil }
            frozen.method = "POST"
            frozen.ifMatch = nil
            frozen.body = RowText.json(whole(local, operation, schema)).text
        case .update where operation.revives:
            guard let local else { return nil }
            frozen.method = "PUT"
            var body = whole(local, operation, schema)
            let changed = changedMembers(of: body, operation, local, basis?.base, schema)
            frozen.query = "?__includedeleted=true" + (changed.map { "&" + $0 } ?? "")
            body["deleted"] = false
            frozen.body = RowText.json(body).text
        case .update:
            guard let local else { return nil }
            frozen.method = "PATCH"
            let base = operation.sendsWholeRow ? nil : basis?.base
            let body =
                base.map { RowMerge.changes(from: $0, to: local) }
                ?? known(local, operation, basis, schema)
            guard !body.isEmptyRow || base == nil else { return nil }
            let changed = changedMembers(of: body, operation, local, basis?.base, schema)
            frozen.query = changed.map { "?" + $0 } ?? ""
            frozen.body = RowText.json(body).text
        }
        return frozen
    }

    /// Returns the id and all columns, except columns that are null but must not be null.
    ///
    /// The server would reject these nulls. Without them, it uses the defaults of the columns.
    private static func whole(
        _ local: Row,
        _ operation: QueuedOperation,
        _ schema: TableSchema?
    ) -> Row {
        var body: Row = ["id": .string(operation.itemID)]
        for (name, value) in RowMerge.payload(local) where !isRejected(value, name, schema) {
            body[name] = value
        }
        return body
    }

    /// Returns all columns that the app knows, and those other columns that it changed.
    ///
    /// A complete row that is sent on top of a newer row must not restore old values of columns
    /// that the app does not know. If the app inserted the row in place of a deleted row, it has
    /// set every value, so all values are sent. The members of a JSON object are handled alike: the
    /// members that the app changed are applied to the newest JSON object.
    ///
    /// If `If-Match` names the newest known row, values equal to those of that row are left out.
    /// The server checks its rules for every value that it receives, and an unchanged value may
    /// break a rule that has become stricter. All values are sent if none differs, or if the row
    /// has columns that the model lacks, because these may be former names of columns in the model.
    private static func known(
        _ local: Row,
        _ operation: QueuedOperation,
        _ basis: RowBasis?,
        _ schema: TableSchema?
    ) -> Row {
        let base = basis?.base
        let newest = basis?.latest?.row ?? base
        let unchanged = local.isFromServer ? base : nil
        var body = Row()
        for (name, value) in RowMerge.payload(local) where !isRejected(value, name, schema) {
            if isUnknown(name, schema), let unchanged, RowMerge.same(unchanged[name], value) {
                continue
            }
            body[name] =
                newest?[name].map { $0.applying(from: base?[name], to: value) } ?? value
        }
        guard let server = basis?.latest?.row, let version = server.version,
            version == operation.basisVersion,
            !body.names.contains(where: { isUnknown($0, schema) })
        else { return body }
        var changes = Row()
        for (name, value) in body {
            if let known = server[name], RowMerge.same(known, value) { continue }
            changes[name] = value
        }
        return changes.isEmptyRow ? body : changes
    }

    /// Returns the parameter that lists the columns of an update that the app has set.
    ///
    /// If a column was renamed, an earlier version of the app may have set it under its old name,
    /// so that the body contains both names. The server has to know which of them the app has set.
    /// The result is nil if the model has all columns, or if it is not known which ones were set.
    private static func changedMembers(
        of body: Row,
        _ operation: QueuedOperation,
        _ local: Row,
        _ base: Row?,
        _ schema: TableSchema?
    ) -> String? {
        let names = body.names.filter { !SystemColumn.names.contains($0) }
        guard names.contains(where: { isUnknown($0, schema) }) else { return nil }
        let changed: [String]
        if operation.sendsWholeRow, !local.isFromServer {
            changed = names.filter { isSet(local[$0] ?? .null, $0, schema) }
        } else if let base {
            changed = names.filter { !RowMerge.same(base[$0], local[$0]) }
        } else {
            return nil
        }
        return "__changed=" + changed.map(TableEndpoint.encoded).joined(separator: ",")
    }

    /// Returns whether the app has set a value of a row that it inserted.
    ///
    /// A row that an earlier version of the app inserted has null or the default in columns that
    /// this version did not have.
    private static func isSet(_ value: Value, _ name: String, _ schema: TableSchema?) -> Bool {
        guard !value.isNull else { return false }
        guard let column = schema?.column(named: name) else { return true }
        return SQLValue(value, type: column.type) != column.storedDefault
    }

    /// Returns whether the app's model lacks a column.
    private static func isUnknown(_ name: String, _ schema: TableSchema?) -> Bool {
        guard let schema, !schema.columns.isEmpty else { return false }
        return schema.column(named: name) == nil
    }

    private static func isRejected(_ value: Value, _ name: String, _ schema: TableSchema?) -> Bool {
        value.isNull && schema?.column(named: name)?.isNullable == false
    }

    /// Returns the columns that a frozen request sent, without the system columns.
    package static func payload(_ operation: QueuedOperation, schema: TableSchema?) -> Row? {
        guard operation.kind != .delete, let body = operation.frozen?.body else { return nil }
        return RowText.row(Data(body.utf8), schema).map(RowMerge.payload)
    }

    /// Returns an entity tag (RFC 9110 section 8.8.3); quotes in the version are escaped as in the
    /// original SDKs.
    package static func quoted(_ version: String) -> String {
        "\"" + version.replacingOccurrences(of: "\"", with: "\\\"") + "\""
    }
}
