// UnknownMembers: the stored members of a row that its table's schema does not have.

import Foundation
import TidelineCore

/// The values of a row for columns that the schema does not have, as one JSON object.
enum UnknownMembers {
    /// The name of the row's member that contains this object.
    static let name = "__extra"

    /// Returns a name in quotation marks, as in a JSON object; empty if JSON may escape one of its characters.
    static func memberName(_ name: String) -> [UInt8] {
        let isPlain = name.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
                true
            default: false
            }
        }
        guard isPlain else { return [] }
        return [UInt8(ascii: "\"")] + Array(name.utf8) + [UInt8(ascii: "\"")]
    }

    /// Returns whether an object may have the member whose name `memberName(_:)` returned.
    ///
    /// This is a search for the bytes of the name, so it may also find them in a value.
    static func mayHave(
        _ memberName: [UInt8],
        in object: UnsafeBufferPointer<UInt8>
    ) -> Bool {
        guard let quote = memberName.first else { return true }
        guard object.count >= memberName.count else { return false }
        for start in 0...object.count - memberName.count where object[start] == quote {
            if object[start...].starts(with: memberName) { return true }
        }
        return false
    }

    /// Returns the members of a row's object.
    static func members(of value: Value) -> Row {
        guard case .json(let object) = value else { return Row() }
        return RowText.row(Data(object.text.utf8), nil) ?? Row()
    }
}
