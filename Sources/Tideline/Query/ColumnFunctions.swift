// ColumnFunctions: functions on strings, dates and arrays in `where:` closures.
//
// Lengths and positions count Unicode scalars, and case conversion covers all of Unicode. These are the filter rules of
// every engine, not those of Swift's `String`.

public import Foundation
public import TidelineCore

/// A type whose columns hold text.
public protocol TextContent {}

extension String: TextContent {}
extension Value: TextContent {}
extension Optional: TextContent where Wrapped: TextContent {}

/// A type whose columns hold instants.
public protocol InstantContent {}

extension Date: InstantContent {}
extension Value: InstantContent {}
extension Optional: InstantContent where Wrapped: InstantContent {}

extension Column where Content: TextContent {
    private func call<Result>(_ function: Function, _ text: String) -> Column<Result> {
        map { .call(function, $0, QueryExpression(.value(.string(text)))) }
    }

    /// Whether the value contains a string, case-sensitively.
    public func contains(_ text: String) -> Condition { call(.contains, text) }

    /// Whether the value contains the value of another column.
    public func contains(_ other: Column<some TextContent>) -> Condition {
        with(other) { .call(.contains, $0, $1) }
    }

    /// Whether the value contains a string, as users search: ignoring case and accents, by the rules of the device's
    /// language, like Foundation's function of the same name.
    ///
    /// Only the device can evaluate this condition: a pull or a read from the server throws ``SyncError`` with
    /// code `unsupportedQuery`.
    public func localizedStandardContains(_ text: String) -> Condition {
        call(.localizedContains, text)
    }

    /// Whether the value contains a string, ignoring letter case by the rules of the device's language, like
    /// Foundation's function of the same name.
    ///
    /// Only the device can evaluate this condition, like ``localizedStandardContains(_:)``.
    public func localizedCaseInsensitiveContains(_ text: String) -> Condition {
        call(.localizedCaseInsensitiveContains, text)
    }

    /// Whether the value begins with a string.
    public func hasPrefix(_ text: String) -> Condition { call(.startswith, text) }

    /// Whether the value begins with the value of another column.
    public func hasPrefix(_ other: Column<some TextContent>) -> Condition {
        with(other) { .call(.startswith, $0, $1) }
    }

    /// Whether the value ends with a string.
    public func hasSuffix(_ text: String) -> Condition { call(.endswith, text) }

    /// Whether the value ends with the value of another column.
    public func hasSuffix(_ other: Column<some TextContent>) -> Condition {
        with(other) { .call(.endswith, $0, $1) }
    }

    /// The value in lowercase.
    public func lowercased() -> Column { map { .call(.tolower, $0) } }

    /// The value in uppercase.
    public func uppercased() -> Column { map { .call(.toupper, $0) } }

    /// The value without white space at either end.
    public func trimmed() -> Column { map { .call(.trim, $0) } }

    /// The number of Unicode scalars.
    public var count: Column<Int> { map { .call(.length, $0) } }

    /// Whether the value is empty.
    ///
    /// Null is not empty.
    public var isEmpty: Condition { map { .compare(.eq, $0, QueryExpression(.value(""))) } }

    /// The position of the first occurrence of a string, counted from 0; -1 if there is none.
    public func position(of text: String) -> Column<Int> { call(.indexof, text) }

    /// The rest of the value from a position, counted from 0, or at most `length` Unicode scalars of it.
    public func substring(from position: Int, length: Int? = nil) -> Column {
        map { column in
            let bounds = [position, length].compactMap { bound in
                bound.map { QueryExpression(.value(.integer(Int64($0)))) }
            }
            return QueryExpression(.call(.substring, [column] + bounds))
        }
    }

    /// The value with every occurrence of one string replaced by another.
    public func replacing(_ text: String, with replacement: String) -> Column {
        map {
            .call(
                .replace,
                $0,
                QueryExpression(.value(.string(text))),
                QueryExpression(.value(.string(replacement)))
            )
        }
    }
}

extension Column where Content: InstantContent {
    /// The year.
    ///
    /// All date components are in UTC.
    public var year: Column<Int> { map { .call(.year, $0) } }
    /// The month, 1 to 12.
    public var month: Column<Int> { map { .call(.month, $0) } }
    /// The day of the month.
    public var day: Column<Int> { map { .call(.day, $0) } }
    /// The hour, 0 to 23.
    public var hour: Column<Int> { map { .call(.hour, $0) } }
    /// The minute, 0 to 59.
    public var minute: Column<Int> { map { .call(.minute, $0) } }
    /// The second, 0 to 59.
    public var second: Column<Int> { map { .call(.second, $0) } }
}

// An array is stored as a JSON document. A value that is null or not an array has no elements.

extension Column where Content: ListContent {
    /// Whether one of the elements has this value; `nil` matches null.
    public func contains(_ element: Content.ListElement) -> Condition {
        contains { $0 == element }
    }

    /// Whether one of the elements has the value of a column.
    public func contains(_ other: Column<Content.ListElement>) -> Condition {
        contains { $0 == other }
    }

    /// Whether one of the elements satisfies a condition: `$0.visits.contains { $0.isDone && $0.city == "Kiel" }`.
    ///
    /// The condition may use columns of the record. If it reads the elements of another column, only the device can
    /// evaluate it.
    public func contains(
        where condition: (Column<Content.ListElement>) throws -> Condition
    ) rethrows -> Condition {
        try ListNesting.anyElement(of: self, condition)
    }

    /// Whether all elements satisfy a condition; true if there are none.
    public func allSatisfy(
        _ condition: (Column<Content.ListElement>) throws -> Condition
    ) rethrows -> Condition {
        try !contains { try !condition($0) }
    }

    /// The number of elements.
    public var count: Column<Int> { map { QueryExpression(.elementCount($0)) } }

    /// Whether the array is empty; also true if the value is null.
    public var isEmpty: Condition { !contains { _ in .always() } }
}

extension Column where Content == Value {
    /// Whether one of the elements of an array satisfies a condition: `$0["tags"].contains { $0 == "urgent" }`.
    public func contains(where condition: (Column<Value>) throws -> Condition) rethrows -> Condition
    {
        try ListNesting.anyElement(of: self, condition)
    }
}
