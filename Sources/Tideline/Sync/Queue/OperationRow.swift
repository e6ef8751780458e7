// OperationRow: converts a queued operation to a row of MS_TableOperations and back.
//
// An operation that cannot be decoded does not stop the queue. Its `damage` names the column, and a
// push parks it with an error.

import Foundation
package import TidelineCore

extension QueuedOperation {
    /// The operation as a row of the queue.
    package var storedRow: Row {
        if let damage {
            var row = damage.stored
            row["state"] = .integer(state.rawValue)
            return row
        }
        let values: [Value] = [
            .string(itemID), .string(table), 0,
            .data(Data("{\"type\":\(kind.rawValue)}".utf8)),
            .integer(Int64(kind.rawValue)), .integer(state.rawValue),
            Self.text(group), Self.text(account),
            .integer(Int64(attempts)), .bool(outcomeUnknown),
            Self.text(frozen?.requestID ?? requestID), Self.text(frozen?.firstSent),
            Self.text(frozen?.method), Self.text(frozen?.query),
            Self.text(frozen?.ifMatch), Self.text(frozen?.body),
            Self.json(frozen?.sentRow), Self.json(unknownSent),
            Self.json(basis.base), Self.json(basis.latest?.stored),
            Self.text(basisVersion), .bool(sendsWholeRow),
            .bool(revives), .integer(Int64(conflicts)),
            Self.json(edit), Self.json(before), .integer(Int64(failedPushes)),
            knownUntil.map(Value.integer) ?? .null, .bool(isInherited),
        ]
        guard id > 0 else { return Row(layout: Self.newLayout, values: values) }
        return Row(layout: Self.layout, values: values + [.integer(id)])
    }

    private static let columns = [
        "itemId", "table", "tableKind",
        "properties",
        "kind", "state",
        "group", "account",
        "attempts", "outcomeUnknown",
        "requestId", "firstSent",
        "method", "query",
        "ifMatch", "body",
        "sentRow", "unknownSent",
        "base", "latest",
        "basisVersion", "sendsWholeRow",
        "revives", "conflicts",
        "edit", "before", "failedPushes",
        "knownUntil", "inherited",
    ]
    /// The columns of an operation in the queue; an operation that is not in the queue yet has all
    /// of them except `id`.
    private static let layout = RowLayout(columns + ["id"])
    private static let newLayout = RowLayout(columns)

    /// Creates the operation from a stored row; `schema` provides the types of its values.
    package init(storedRow row: Row, schema: (String) -> TableSchema?) {
        var reader = OperationReader(row)
        let table = reader.text("table") ?? ""
        let kind = reader.integer("kind").flatMap { Int(exactly: $0) }
            .flatMap(OperationKind.init)
        let state = reader.integer("state").flatMap(State.init)
        self.init(
            id: reader.integer("id") ?? 0,
            table: table,
            itemID: reader.text("itemId") ?? "",
            kind: kind ?? .update,
            state: state ?? .pending
        )
        // The store assigns ids that start at 1.
        if id <= 0, row["id"] != nil { reader.damaged = "id" }
        if reader.text("table") == nil { reader.damaged = "table" }
        if reader.text("itemId") == nil { reader.damaged = "itemId" }
        if kind == nil { reader.damaged = "kind" }
        if state == nil { reader.damaged = "state" }
        reader.schema = schema(table)
        group = reader.text("group")
        if group == nil, let stored = row["group"], !stored.isNull { reader.damaged = "group" }
        account = reader.text("account")
        basisVersion = reader.text("basisVersion")
        sendsWholeRow = reader.flag("sendsWholeRow")
        revives = reader.flag("revives")
        outcomeUnknown = reader.flag("outcomeUnknown")
        conflicts = reader.count("conflicts")
        edit = reader.row("edit")
        before = reader.row("before")
        attempts = reader.count("attempts")
        failedPushes = reader.count("failedPushes")
        requestID = reader.text("requestId")
        knownUntil = reader.integer("knownUntil")
        isInherited = reader.flag("inherited")
        basis = RowBasis(
            base: reader.row("base"),
            latest: reader.row("latest").map(ServerState.init)
        )
        let sentRow = reader.row("sentRow")
        if let method = reader.text("method"), let requestID = reader.text("requestId") {
            frozen = Frozen(
                method: method,
                query: reader.text("query") ?? "",
                ifMatch: reader.text("ifMatch"),
                requestID: requestID,
                firstSent: reader.text("firstSent") ?? "",
                body: reader.text("body"),
                sentRow: sentRow
            )
        } else if self.state == .attempted {
            reader.damaged = "requestId"
        }
        if let body = frozen?.body, !RowText.isDocument(body) { reader.damaged = "body" }
        if let fault = frozen?.fault { reader.damaged = fault }
        unknownSent = reader.row("unknownSent")
        if let column = reader.damaged { damage = Damage(column: column, stored: row) }
    }

    private static func text(_ text: String?) -> Value { text.map(Value.string) ?? .null }

    private static func json(_ row: Row?) -> Value {
        row.map { .string(RowText.json($0).text) } ?? .null
    }
}

/// A reader of the columns of a stored operation, which records a column that cannot be read.
private struct OperationReader {
    private let stored: Row
    var schema: TableSchema?
    var damaged: String?

    init(_ stored: Row) { self.stored = stored }

    func text(_ name: String) -> String? { stored[name]?.text }

    func integer(_ name: String) -> Int64? {
        if case .integer(let value) = stored[name] { value } else { nil }
    }

    /// Returns a number that can be incremented.
    func count(_ name: String) -> Int {
        Int(clamping: min(max(integer(name) ?? 0, 0), Int64(Int32.max)))
    }

    func flag(_ name: String) -> Bool { stored[name] == true }

    mutating func row(_ name: String) -> Row? {
        guard let stored = self.stored[name], !stored.isNull else { return nil }
        if let text = stored.text, let row = RowText.row(Data(text.utf8), schema) { return row }
        damaged = name
        return nil
    }
}
