// QueuedOperation: one entry of the operation queue, and its row in MS_TableOperations.

import Foundation
package import TidelineCore

/// What an operation does to its row.
public enum OperationKind: Int, Sendable, Hashable, CaseIterable {
    /// The row is new.
    case insert = 0
    /// The row changed.
    case update = 1
    /// The row goes.
    case delete = 2
}

/// An operation that the server has not accepted yet.
public struct PendingOperation: Sendable, Hashable, Identifiable {
    /// The place in the queue; operations are sent in this order.
    public var id: Int64
    /// The table's name.
    public var table: String
    /// The row's id.
    public var itemID: String
    /// What it does.
    public var kind: OperationKind
    /// Whether it was sent at least once; from then on it is sent byte for byte the same.
    public var isAttempted: Bool
    /// Whether the server rejected it, so that it waits for the app.
    public var isParked: Bool
}

/// An entry of the queue with everything that sending needs.
package struct QueuedOperation: Sendable, Hashable {
    package enum State: Int64, Sendable {
        /// Never sent; later edits collapse into it.
        case pending = 0
        /// Frozen: sent at least once, with an unknown outcome.
        case attempted = 1
        /// Rejected by the server; waits for the app or for an edit of its row.
        case parked = 2
    }

    /// The bytes of the first attempt, and the row as it was then.
    package struct Frozen: Sendable, Hashable {
        package var method: String
        /// The query of the request, with its question mark, or nothing.
        package var query: String
        package var ifMatch: String?
        package var requestID: String
        package var firstSent: String
        /// The body; nil for a delete.
        package var body: String?
        /// The local row at the first attempt, `L1` of docs/SYNC.md; nil for a delete.
        package var sentRow: Row?
    }

    package var id: Int64
    package var table: String
    package var itemID: String
    package var kind: OperationKind
    package var state = State.pending
    package var frozen: Frozen?
    /// The version that the change is based on, where it is not that of the base row.
    package var basisVersion: String?
    /// Whether every column is sent, and not only what differs from the base.
    package var sendsWholeRow = false
    /// Whether the server's row is a tombstone that the operation brings back.
    package var revives = false
    /// How often a conflict was settled by sending again.
    package var conflicts = 0

    package init(
        id: Int64,
        table: String,
        itemID: String,
        kind: OperationKind,
        state: State = .pending
    ) {
        self.id = id
        self.table = table
        self.itemID = itemID
        self.kind = kind
        self.state = state
    }

    package var isAttempted: Bool { state == .attempted }

    package var pending: PendingOperation {
        PendingOperation(
            id: id,
            table: table,
            itemID: itemID,
            kind: kind,
            isAttempted: frozen != nil,
            isParked: state == .parked
        )
    }

    /// Takes the operation back to where it was before its first attempt.
    ///
    /// Allowed only when the outcome of every attempt is known: the server rejected it.
    package mutating func thaw() {
        state = .pending
        frozen = nil
        conflicts = 0
    }
}

// MARK: - The row in MS_TableOperations

extension QueuedOperation {
    package var row: Row {
        var properties = Row()
        properties["type"] = .integer(Int64(kind.rawValue))
        properties["basisVersion"] = basisVersion.map(Value.string)
        if sendsWholeRow { properties["sendsWholeRow"] = true }
        if revives { properties["revives"] = true }
        if conflicts > 0 { properties["conflicts"] = .integer(Int64(conflicts)) }
        if let frozen {
            var request = Row()
            request["method"] = .string(frozen.method)
            request["query"] = .string(frozen.query)
            request["ifMatch"] = frozen.ifMatch.map(Value.string)
            request["requestID"] = .string(frozen.requestID)
            request["firstSent"] = .string(frozen.firstSent)
            request["body"] = frozen.body.map(Value.string)
            request["sentRow"] = frozen.sentRow.map { .json(RowText.json($0)) }
            properties["request"] = .json(RowText.json(request))
        }
        return [
            "id": .integer(id), "itemId": .string(itemID), "table": .string(table),
            "tableKind": 0, "state": .integer(state.rawValue),
            "properties": .data(Data(RowText.json(properties).text.utf8)),
        ]
    }

    package init?(row: Row, schema: (String) -> TableSchema?) {
        guard case .integer(let id) = row["id"], let table = row["table"]?.text,
            let itemID = row["itemId"]?.text, case .data(let bytes) = row["properties"],
            let properties = RowText.row(bytes, nil),
            case .integer(let type) = properties["type"],
            let kind = OperationKind(rawValue: Int(type)),
            case .integer(let rawState) = row["state"], let state = State(rawValue: rawState)
        else { return nil }
        self.init(id: id, table: table, itemID: itemID, kind: kind, state: state)
        basisVersion = properties["basisVersion"]?.text
        sendsWholeRow = properties["sendsWholeRow"] == true
        revives = properties["revives"] == true
        if case .integer(let count) = properties["conflicts"] { conflicts = Int(count) }
        guard case .json(let json) = properties["request"],
            let request = RowText.row(Data(json.text.utf8), nil),
            let method = request["method"]?.text, let requestID = request["requestID"]?.text
        else { return }
        var sentRow: Row?
        if case .json(let sent) = request["sentRow"] {
            sentRow = RowText.row(Data(sent.text.utf8), schema(table))
        }
        frozen = Frozen(
            method: method,
            query: request["query"]?.text ?? "",
            ifMatch: request["ifMatch"]?.text,
            requestID: requestID,
            firstSent: request["firstSent"]?.text ?? "",
            body: request["body"]?.text,
            sentRow: sentRow
        )
    }
}
