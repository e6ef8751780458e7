// OperationRequest: the request that an operation becomes when it is frozen.
//
// Pure. `POST` inserts, `PATCH` sends what differs from the base, `PUT` brings a tombstone back,
// `DELETE` deletes; every one but an insert carries If-Match (docs/SYNC.md).

import Foundation
import TidelineCore

enum OperationRequest {
    /// What to send; nil when an update changes nothing.
    static func frozen(
        _ operation: QueuedOperation, local: Row?, basis: RowBasis?, requestID: String, now: Date
    ) -> QueuedOperation.Frozen? {
        let version = operation.basisVersion ?? basis?.base?.version
        var frozen = QueuedOperation.Frozen(
            method: "DELETE", query: "", ifMatch: version.map(quoted), requestID: requestID,
            firstSent: Timestamp(now).text, body: nil, sentRow: local)
        switch operation.kind {
        case .delete:
            frozen.sentRow = nil
        case .insert:
            guard let local else { return nil }
            frozen.method = "POST"
            frozen.ifMatch = nil
            var body = Row()
            body["id"] = .string(operation.itemID)
            for (name, value) in RowMerge.payload(local) { body[name] = value }
            frozen.body = RowText.json(body).text
        case .update where operation.revives:
            guard let local else { return nil }
            frozen.method = "PUT"
            frozen.query = "?__includedeleted=true"
            var body = Row()
            body["id"] = .string(operation.itemID)
            for (name, value) in RowMerge.payload(local) { body[name] = value }
            body["deleted"] = false
            frozen.body = RowText.json(body).text
        case .update:
            guard let local else { return nil }
            frozen.method = "PATCH"
            let base = operation.sendsWholeRow ? nil : basis?.base
            let body =
                base.map { RowMerge.changes(from: $0, to: local) } ?? RowMerge.payload(local)
            guard !body.isEmptyRow || base == nil else { return nil }
            frozen.body = RowText.json(body).text
        }
        return frozen
    }

    /// The members that a frozen request sent, without the system columns.
    static func payload(_ operation: QueuedOperation, schema: TableSchema?) -> Row? {
        guard operation.kind != .delete, let body = operation.frozen?.body else { return nil }
        return RowText.row(Data(body.utf8), schema).map(RowMerge.payload)
    }

    /// An entity tag (RFC 9110 section 8.8.3); quotes inside are escaped as the originals do.
    static func quoted(_ version: String) -> String {
        "\"" + version.replacingOccurrences(of: "\"", with: "\\\"") + "\""
    }
}
