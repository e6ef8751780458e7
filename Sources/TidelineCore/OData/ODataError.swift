// ODataError: the types that the OData parser and writer share: the two dialects, the limits, the error.

/// The query syntax of a protocol generation.
///
/// The parser of each dialect also accepts every spelling of the other.
package enum ODataDialect: Hashable, Sendable, CaseIterable {
    /// ZUMO 2.x: `substringof('a',b)`, `datetimeoffset'…'`, `round` half away from zero.
    case v3
    /// Datasync: `contains(b,'a')`, bare dates, `in`, `round` half to even.
    case v4
}

/// The limits of a query text; a larger one is rejected with the position.
package struct ODataLimits: Hashable, Sendable {
    /// The most bytes of one option's decoded text.
    ///
    /// This is far more than HTTP servers accept for a whole URL, because queries in a batch may be longer: a list of
    /// ``listElementsMax`` UUIDs.
    package var textBytesMax = 512 << 10

    /// The deepest nesting of the tree, parentheses included.
    ///
    /// Reader, checker and evaluator recurse once per level; a debug build needs 5 KiB of stack
    /// for one, and threads of Apple platforms have 512 KiB. LINQ clients nest a chain of `or` as
    /// deep as it is long.
    package var depthMax = 80

    /// The most nodes of one filter's tree.
    package var nodesMax = 2000

    /// The most keys of an order.
    package var orderKeysMax = 16

    /// The most names in a selection.
    package var selectNamesMax = 500

    /// The most elements of an `in` list.
    package var listElementsMax = 10_000

    /// The most Unicode scalars of the third argument of `replace`, as in the original servers.
    package var replacementScalarsMax = 100

    package init() {}
}

/// An error in a query, with its position and the expected text.
public struct ODataError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Reason: Hashable, Sendable {
        /// The text does not follow the grammar.
        case syntax
        /// More than the limits allow.
        case tooLarge
        /// A name that the table does not have.
        case unknownColumn
        /// An operand of a wrong type.
        case type
        /// A query that cannot be expressed in the dialect.
        case unsupported
    }

    /// The byte offset in the decoded text of the option.
    public var position: Int
    /// The error and the expected text; never a value of the query.
    public var message: String
    package var reason: Reason

    package init(_ reason: Reason, _ message: String, at position: Int) {
        self.reason = reason
        self.message = message
        self.position = position
    }

    /// The message with its position.
    public var description: String { "\(message), at byte \(position)" }
}
