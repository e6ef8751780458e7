// StoredError: the error of an operation, as it is stored.

import Foundation
import TidelineCore

/// The error of a rejected operation, stored as a row of MS_TableOperationErrors.
struct StoredError: Sendable {
    var id: String
    var operationID: Int64
    var table: String
    var itemID: String
    var kind: OperationKind
    var statusCode: Int?
    var message: String
    var item: Row?
    var serverItem: Row?
    /// The rule that the row breaks.
    var brokenRule: BrokenRule?
    /// The conditions under which the server rejected the operation; nil if the row itself is the
    /// reason.
    var conditions: ParkedConditions?
    /// The reference because of which the server rejected the operation.
    var reference: BrokenReference?
    /// Whether the error was stored by a version of Tideline that did not store conditions.
    private(set) var isOfEarlierVersion = false

    var row: Row {
        var properties = Row()
        properties["table"] = .string(table)
        properties["itemId"] = .string(itemID)
        properties["operation"] = .integer(Int64(kind.rawValue))
        properties["statusCode"] = statusCode.map { .integer(Int64($0)) }
        properties["description"] = .string(message)
        properties["schema"] = conditions?.schema.map { .string($0) }
        properties["rights"] = conditions?.rights.map { .string($0) }
        properties["code"] = brokenRule.map { .string($0.code.rawValue) }
        properties["columns"] = brokenRule.map { .string($0.columns.joined(separator: "\n")) }
        properties["app"] = .string(conditions?.app ?? "")
        reference?.store(in: &properties)
        return [
            "id": .string(id), "operationId": .integer(operationID), "tableKind": 0,
            "properties": .data(Data(RowText.json(properties).text.utf8)),
            "item": item.map { .string(RowText.json($0).text) } ?? .null,
            "serverItem": serverItem.map { .string(RowText.json($0).text) } ?? .null,
        ]
    }

    init(
        id: String,
        operation: QueuedOperation,
        statusCode: Int?,
        message: String,
        item: Row?,
        serverItem: Row?
    ) {
        self.id = id
        operationID = operation.id
        table = operation.table
        itemID = operation.itemID
        kind = operation.kind
        self.statusCode = statusCode
        self.message = message
        self.item = item
        self.serverItem = serverItem
    }

    /// Creates the error from a stored row; `operation` supplies values that the row does not have.
    init(row: Row, operation: QueuedOperation, schema: TableSchema?) {
        var properties = Row()
        if case .data(let bytes) = row["properties"] {
            properties = RowText.row(bytes, nil) ?? Row()
        }
        var status: Int?
        if case .integer(let code) = properties["statusCode"] { status = Int(exactly: code) }
        func stored(_ name: String) -> Row? {
            row[name]?.text.flatMap { RowText.row(Data($0.utf8), schema) }
        }
        self.init(
            id: row["id"]?.text ?? "",
            operation: operation,
            statusCode: status,
            message: properties["description"]?.text ?? "The server rejected the operation.",
            item: stored("item"),
            serverItem: stored("serverItem")
        )
        if let code = properties["code"]?.text.flatMap(RuleViolation.Code.init) {
            let columns = properties["columns"]?.text?.components(separatedBy: "\n") ?? []
            brokenRule = BrokenRule(table: operation.table, columns: columns, code: code)
        }
        isOfEarlierVersion = properties["app"] == nil
        reference = BrokenReference(properties: properties)
        if let app = properties["app"]?.text, !app.isEmpty {
            conditions = ParkedConditions(
                schema: properties["schema"]?.text,
                rights: properties["rights"]?.text,
                app: app
            )
        }
    }
}
