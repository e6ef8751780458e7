// RowFilter: a condition on rows as OData text, into which values come as literals only.

public import Foundation
public import TidelineCore

/// The rows that a caller sees, as OData text.
///
/// Every interpolated value becomes a literal, so no value can be more than a value:
///
/// ```swift
/// hooks.rowFilter = { user in "owner eq \(user?.id ?? "") or public eq true" }
/// ```
public struct RowFilter: Sendable, ExpressibleByStringInterpolation {
    private var text: String
    /// A value that has no literal.
    private var fault: ODataError?

    /// What names the view to devices that ask for changes; nil to take the condition's text.
    ///
    /// A device that holds rows of a view with another name starts over. Set it where the text is
    /// another one for each request though it means the same rows, and change it where the same
    /// text comes to mean other rows.
    public var fingerprint: String?

    /// A condition without values.
    public init(stringLiteral text: String) {
        self.text = text
    }

    /// A condition with values.
    public init(stringInterpolation: StringInterpolation) {
        text = stringInterpolation.text
        fault = stringInterpolation.fault
    }

    /// Gathers the text of a condition.
    public struct StringInterpolation: StringInterpolationProtocol {
        fileprivate var text = ""
        fileprivate var fault: ODataError?

        /// Makes room.
        public init(literalCapacity: Int, interpolationCount: Int) {
            text.reserveCapacity(literalCapacity + 16 * interpolationCount)
        }

        /// Takes a piece of the condition.
        public mutating func appendLiteral(_ literal: String) { text += literal }

        /// Takes a value.
        public mutating func appendInterpolation(_ value: Value) {
            do {
                text += try ODataWriter(.v4).filter(QueryExpression(.value(value)))
            } catch {
                fault = error
            }
        }

        /// Takes a value; nil is null.
        public mutating func appendInterpolation(_ value: Value?) {
            appendInterpolation(value ?? .null)
        }

        /// Takes a text.
        public mutating func appendInterpolation(_ value: String) {
            appendInterpolation(Value.string(value))
        }

        /// Takes a whole number.
        public mutating func appendInterpolation(_ value: Int) {
            appendInterpolation(Value.integer(Int64(value)))
        }

        /// Takes a boolean.
        public mutating func appendInterpolation(_ value: Bool) {
            appendInterpolation(Value.bool(value))
        }

        /// Takes an instant.
        public mutating func appendInterpolation(_ value: Date) {
            appendInterpolation(Value.date(value))
        }
    }

    /// The condition on a table's columns, and whether it asks for the time.
    func expression(
        in schema: TableSchema,
        now: Int64
    ) throws -> (condition: QueryExpression, callsNow: Bool) {
        if let fault { throw fault }
        let filter = try ODataParser.filter(text, dialect: .v4)
        let checker = FilterChecker(schema: schema, now: Timestamp(microseconds: now).date)
        return (try checker.filter(filter), filter.calls(.now))
    }

    /// What tells this view from others.
    var identity: String { fingerprint.map { "name " + $0 } ?? "text " + text }
}
