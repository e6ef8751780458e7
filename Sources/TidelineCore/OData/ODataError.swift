// ODataError: the types that the OData parser and writer share: dialects, limits, and errors.

/// The query syntax of a protocol generation.
///
/// The parser of each dialect also accepts the other dialect's syntax.
package enum ODataDialect: Hashable, Sendable, CaseIterable {
    /// ZUMO 2.x: `substringof('a',b)`, `datetimeoffset'…'`, `round` half away from zero.
    case v3
    /// Datasync: `contains(b,'a')`, bare dates, `in`, `round` half to even.
    case v4
}

/// The limits of a query; a query that exceeds a limit is rejected with the position.
package struct ODataLimits: Hashable, Sendable {
    /// The maximum number of bytes in the decoded value of one option.
    ///
    /// HTTP servers accept far less for a whole URL, but queries in a batch may be longer, for
    /// example a list of ``listElementsMax`` UUIDs.
    package var textBytesMax = 512 << 10

    /// The maximum nesting depth of the tree, including parentheses.
    ///
    /// The parser, the checker, and the evaluator recurse once per level. A debug build needs 5 KiB
    /// of stack per level, and threads on Apple platforms have 512 KiB. LINQ clients nest a chain
    /// of `or` as deeply as the chain is long.
    package var depthMax = 80

    /// The maximum number of nodes in one filter's tree.
    package var nodesMax = 2000

    /// The maximum number of keys in an order.
    package var orderKeysMax = 16

    /// The maximum number of names in a selection.
    package var selectNamesMax = 500

    /// The maximum number of elements of an `in` list.
    package var listElementsMax = 10_000

    /// The maximum number of Unicode scalars of the third argument of `replace`, as in the original
    /// servers.
    package var replacementScalarsMax = 100

    package init() {}
}

/// An error in a query, with its position and the expected text.
public struct ODataError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Reason: Hashable, Sendable {
        /// The query does not follow the grammar.
        case syntax
        /// The query exceeds a limit.
        case tooLarge
        /// The table does not have a column of this name.
        case unknownColumn
        /// An operand has the wrong type.
        case type
        /// The query cannot be expressed in the dialect.
        case unsupported
    }

    /// The byte offset in the decoded value of the option.
    public var position: Int
    /// The error and the expected text; never contains a value from the query.
    public var message: String
    package var reason: Reason

    package init(_ reason: Reason, _ message: String, at position: Int) {
        self.reason = reason
        self.message = message
        self.position = position
    }

    /// The message followed by the position.
    public var description: String { "\(message), at byte \(position)" }
}
