// StoredError: a rejected operation's error, and its row in MS_TableOperationErrors.

import Foundation
import TidelineCore

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

    var row: Row {
        var properties = Row()
        properties["table"] = .string(table)
        properties["itemId"] = .string(itemID)
        properties["operation"] = .integer(Int64(kind.rawValue))
        properties["statusCode"] = statusCode.map { .integer(Int64($0)) }
        properties["description"] = .string(message)
        properties["item"] = item.map { .json(RowText.json($0)) }
        properties["serverItem"] = serverItem.map { .json(RowText.json($0)) }
        return [
            "id": .string(id), "operationId": .integer(operationID), "tableKind": 0,
            "properties": .data(Data(RowText.json(properties).text.utf8)),
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

    init?(row: Row, catalog: TableCatalog) {
        guard let id = row["id"]?.text, case .integer(let operationID) = row["operationId"],
            case .data(let bytes) = row["properties"], let properties = RowText.row(bytes, nil),
            let table = properties["table"]?.text, let itemID = properties["itemId"]?.text,
            case .integer(let rawKind) = properties["operation"],
            let kind = OperationKind(rawValue: Int(rawKind))
        else { return nil }
        self.id = id
        self.operationID = operationID
        self.table = table
        self.itemID = itemID
        self.kind = kind
        if case .integer(let status) = properties["statusCode"] { statusCode = Int(status) }
        message = properties["description"]?.text ?? ""
        if case .json(let json) = properties["item"] {
            item = RowText.row(Data(json.text.utf8), catalog.schema(table))
        }
        if case .json(let json) = properties["serverItem"] {
            serverItem = RowText.row(Data(json.text.utf8), catalog.schema(table))
        }
    }
}
