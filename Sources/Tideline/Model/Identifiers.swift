// Identifiers: checks of row ids and query ids that throw errors.

import TidelineCore

extension ItemID {
    /// Throws `.invalidID` if `id` is not a valid key of a row.
    package static func check(_ id: String) throws {
        if let fault = fault(in: id) { throw SyncError.invalidID(fault) }
    }
}

/// The rules for the id of a pull query.
package enum QueryID {
    /// The length limit of a query id, which is part of a key of the local store.
    package static let charactersMax = 50

    /// Throws `.invalidQueryID` if `id` is not a valid name of a pull query.
    package static func check(_ id: String) throws {
        if id.isEmpty { throw SyncError.invalidQueryID("it is empty") }
        guard id.utf8.allSatisfy(isAllowed) else {
            throw SyncError.invalidQueryID("it contains a character that is not allowed")
        }
        guard id.utf8.count <= charactersMax else {
            throw SyncError.invalidQueryID("it is longer than \(charactersMax) characters")
        }
    }

    private static func isAllowed(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }
}
