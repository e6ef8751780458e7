// OtherColumns: columns of a table that other models gave it, in the rows of a model that has not got
// them: there their values are as in any member that a model does not know, by their JSON alone.

import Foundation
import TidelineCore

extension SQLiteTable {
    /// The values of other columns as members without a type.
    func untyped(_ members: Row) -> Row {
        guard members.count > 0, others.contains(where: { !Self.isPlain(CellKind($0.type)) })
        else { return members }
        return RowText.row(Data(RowText.json(members).text.utf8), nil) ?? members
    }

    /// The value of an unknown member as the column holds it for the models that have it.
    ///
    /// As it came where that would not be told in the same words again.
    func typed(_ value: Value, ofCell index: Int) -> Value {
        guard !value.isNull, !Self.isPlain(cells[index]) else { return value }
        let column = others[index - columns.count]
        let text = RowText.json([column.name: value]).text
        let schema = TableSchema(name: self.schema.name, columns: [column])
        guard let typed = RowText.row(Data(text.utf8), schema)?[column.name],
            RowText.json([column.name: typed]).text == text
        else { return value }
        return typed
    }

    /// Whether values of a kind are the same with and without the type.
    private static func isPlain(_ kind: CellKind) -> Bool {
        switch kind {
        case .text, .integer, .number, .boolean, .any: true
        case .decimal, .instant, .bytes, .json: false
        }
    }
}
