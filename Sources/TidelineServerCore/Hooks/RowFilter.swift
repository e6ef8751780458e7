// RowFilter: a condition on rows as OData text, with interpolated values as literals.

public import Foundation
public import TidelineCore

/// The filter for the rows that a caller may see, as an OData string.
///
/// Every interpolated value becomes a literal, so that no value can change the condition:
///
/// ```swift
/// hooks.rowFilter = { user in "owner eq \(user?.id ?? "") or public eq true" }
/// ```
public struct RowFilter: Sendable, ExpressibleByStringInterpolation {
    private var text: String
    /// The error for a value without a literal.
    private var fault: ODataError?

    /// The name of the visibility filter for devices that request changes; nil to use the text of the
    /// condition.
    ///
    /// A device reads everything again if the name has changed. Set the name if the text of the condition
    /// differs between requests although it selects the same rows, and change the name if the same text selects
    /// other rows from now on.
    public var fingerprint: String?

    /// Creates a condition without values.
    public init(stringLiteral text: String) {
        self.text = text
    }

    /// Creates a condition with values.
    public init(stringInterpolation: StringInterpolation) {
        text = stringInterpolation.text
        fault = stringInterpolation.fault
    }

    /// A builder of the text of a condition.
    public struct StringInterpolation: StringInterpolationProtocol {
        fileprivate var text = ""
        fileprivate var fault: ODataError?

        /// Reserves capacity.
        public init(literalCapacity: Int, interpolationCount: Int) {
            text.reserveCapacity(literalCapacity + 16 * interpolationCount)
        }

        /// Appends a literal part of the condition.
        public mutating func appendLiteral(_ literal: String) { text += literal }

        /// Appends a value.
        public mutating func appendInterpolation(_ value: Value) {
            do {
                text += try ODataWriter(.v4).filter(QueryExpression(.value(value)))
            } catch {
                fault = error
            }
        }

        /// Appends a value; nil is null.
        public mutating func appendInterpolation(_ value: Value?) {
            appendInterpolation(value ?? .null)
        }

        /// Appends a string.
        public mutating func appendInterpolation(_ value: String) {
            appendInterpolation(Value.string(value))
        }

        /// Appends an integer.
        public mutating func appendInterpolation(_ value: Int) {
            appendInterpolation(Value.integer(Int64(value)))
        }

        /// Appends a Boolean value.
        public mutating func appendInterpolation(_ value: Bool) {
            appendInterpolation(Value.bool(value))
        }

        /// Appends an instant.
        public mutating func appendInterpolation(_ value: Date) {
            appendInterpolation(Value.date(value))
        }
    }

    /// Returns the condition on a table's columns, and whether it depends on the time.
    func expression(
        in schema: TableSchema,
        now: Int64
    ) throws -> (condition: QueryExpression, callsNow: Bool) {
        if let fault { throw fault }
        let filter = try ODataParser.filter(text, dialect: .v4)
        let checker = FilterChecker(schema: schema, now: Timestamp(microseconds: now).date)
        return (try checker.filter(filter), filter.calls(.now))
    }

    /// The string that identifies the visibility filter.
    var identity: String { fingerprint.map { "name " + $0 } ?? "text " + text }
}
