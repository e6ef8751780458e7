// PageStart: where a page begins.

import Foundation
package import TidelineCore

/// The position after which a page begins, by the keys of a row.
package struct PageStart {
    package let keyset: KeysetRenderer
    package let values: [Value]

    /// Creates the position after a row with these keys.
    ///
    /// - Throws: A rejection with 400 if the order has another number of keys.
    package init(after keys: [SQLValue], _ keyset: KeysetRenderer) throws {
        guard keys.count == keyset.keys.count else {
            throw ServerError.badRequest("Option '$skiptoken' is not from a link of this query.")
        }
        self.keyset = keyset
        values = zip(keys, keyset.keys).map { value, key in
            Value(value, as: key.expression.type(in: keyset.renderer.schema))
        }
    }

    /// Creates the position for a link whose row has changed; it precedes all rows that may follow the old position.
    ///
    /// `order` is the order of the request, whose keys `keyset` has.
    package init(_ anchor: PageAnchor, in order: [SortKey], _ keyset: KeysetRenderer) {
        func type(_ key: SortKey) -> ExpressionType {
            key.expression.type(in: keyset.renderer.schema)
        }
        var keys = Array(order.prefix(anchor.keys.count))
        var values = zip(anchor.keys, keys).map { Value($0, as: type($1)) }
        if let prefix = anchor.prefix, keys.count < order.count {
            let key = order[keys.count]
            let bound = key.isAscending ? prefix : prefix.successor
            if let bound {
                keys.append(key)
                values.append(Value(bound, as: type(key)))
            }
        }
        // The empty id is before every other one.
        values.append(.string(""))
        self.keyset = KeysetRenderer(keyset.renderer, order: keys)
        self.values = values
    }

    private init(_ keyset: KeysetRenderer, _ values: [Value]) {
        self.keyset = keyset
        self.values = values
    }

    /// Returns the same position with the order of another renderer.
    package func rendered(by renderer: FilterRenderer) -> PageStart {
        PageStart(KeysetRenderer(renderer, order: keyset.keys), values)
    }
}

extension SQLValue {
    /// The smallest value after all values with this prefix; nil if there is none.
    fileprivate var successor: SQLValue? {
        switch self {
        case .text(let text): FilterRenderer.successor(of: text).map { .text($0) }
        case .blob(let bytes):
            bytes.lastIndex { $0 != 0xFF }.map { place in
                var end = Array(bytes[...place])
                end[end.count - 1] += 1
                return .blob(Data(end))
            }
        case .null, .integer, .real, .program: nil
        }
    }
}
