// OtherColumns: converts the columns that other models added to a table, for a model that does not
// declare them. That model treats their values as untyped JSON, like any member that it does not
// know.

import Foundation
import TidelineCore

extension SQLiteTable {
    /// Returns the values of other models' columns as untyped members.
    func untyped(_ members: Row) -> Row {
        guard members.count > 0, others.contains(where: { !Self.isPlain(CellKind($0.type)) })
        else { return members }
        return RowText.row(Data(RowText.json(members).text.utf8), nil) ?? members
    }

    /// Converts the value of an unknown member to the type that another model declared for its
    /// column.
    ///
    /// The value stays unchanged if the converted value would have a different JSON text.
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

    /// Returns whether values of a kind are the same with and without type information.
    private static func isPlain(_ kind: CellKind) -> Bool {
        switch kind {
        case .text, .integer, .number, .boolean, .any: true
        case .decimal, .instant, .bytes, .json: false
        }
    }
}
