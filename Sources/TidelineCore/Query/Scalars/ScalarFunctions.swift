// ScalarFunctions: query functions for FilterEvaluator and, through SQLFunctions, for the database.

import Foundation

/// The single implementation of each query function.
package enum ScalarFunctions {
    /// Applies a function.
    ///
    /// Conditions on null are false; other functions of null return null.
    ///
    /// Precondition: the number of arguments fits the function (`Function.arity`). `now` has no
    /// value. `pattern` is the compiled pattern of a `matchesPattern` call, if there is one.
    package static func apply(
        _ function: Function,
        _ arguments: [Value],
        _ watch: EvaluationWatch? = nil,
        pattern: TextPattern? = nil
    ) -> Value {
        switch function {
        case .contains: condition(arguments) { ScalarText.contains($0, $1) }
        case .localizedContains: condition(arguments) { $0.localizedStandardContains($1) }
        case .localizedCaseInsensitiveContains:
            condition(arguments) { $0.localizedCaseInsensitiveContains($1) }
        case .startswith: condition(arguments) { ScalarText.starts($0, with: $1) }
        case .endswith: condition(arguments) { ScalarText.ends($0, with: $1) }
        case .matchesPattern:
            condition(arguments) { (pattern ?? .search($1)).isFound(in: $0, watch) }
        case .has: condition(arguments) { $0.utf8.elementsEqual($1.utf8) }
        case .isof:
            .bool(type(arguments[1]).map { ScalarCasts.isOf(arguments[0], $0) } ?? false)
        case .cast: type(arguments[1]).map { ScalarCasts.cast(arguments[0], to: $0) } ?? .null
        case .length: text(arguments) { .integer(ScalarText.length($0)) }
        case .tolower: text(arguments) { .string(ScalarText.lower($0)) }
        case .toupper: text(arguments) { .string(ScalarText.upper($0)) }
        case .trim: text(arguments) { .string(ScalarText.trim($0)) }
        case .substring: text(arguments) { substring($0, arguments) }
        case .indexof: text(arguments) { .integer(ScalarText.index(of: $1, in: $0)) }
        case .concat: text(arguments) { ScalarText.concat($0, $1).map { .string($0) } ?? .null }
        case .replace: replace(arguments)
        case .year: part(.year, arguments[0])
        case .month: part(.month, arguments[0])
        case .day: part(.day, arguments[0])
        case .hour: part(.hour, arguments[0])
        case .minute: part(.minute, arguments[0])
        case .second: part(.second, arguments[0])
        case .fractionalseconds: part(.fraction, arguments[0])
        case .totaloffsetminutes: part(.offset, arguments[0])
        case .date: part(.date, arguments[0])
        case .time: part(.time, arguments[0])
        case .floor: ScalarNumbers.round(arguments[0], .down)
        case .ceiling: ScalarNumbers.round(arguments[0], .up)
        case .round: ScalarNumbers.round(arguments[0], .halfToEven)
        case .roundAway: ScalarNumbers.round(arguments[0], .halfAwayFromZero)
        case .now: .null
        }
    }

    private static func type(_ name: Value) -> EdmType? {
        name.text.flatMap { EdmType(rawValue: $0) }
    }

    /// Evaluates a condition on two strings; false if either argument is not a string.
    private static func condition(
        _ arguments: [Value],
        _ holds: (String, String) -> Bool
    ) -> Value {
        guard let text = arguments[0].text, let other = arguments[1].text else { return false }
        return .bool(holds(text, other))
    }

    private static func text(_ arguments: [Value], _ result: (String) -> Value) -> Value {
        arguments[0].text.map(result) ?? .null
    }

    private static func text(_ arguments: [Value], _ result: (String, String) -> Value) -> Value {
        guard let text = arguments[0].text, let other = arguments[1].text else { return .null }
        return result(text, other)
    }

    private static func substring(_ text: String, _ arguments: [Value]) -> Value {
        guard let start = whole(arguments[1]) else { return .null }
        guard arguments.count > 2 else {
            return .string(ScalarText.substring(text, from: start, count: nil))
        }
        guard let count = whole(arguments[2]) else { return .null }
        return .string(ScalarText.substring(text, from: start, count: count))
    }

    private static func replace(_ arguments: [Value]) -> Value {
        guard let text = arguments[0].text, let part = arguments[1].text,
            let other = arguments[2].text
        else { return .null }
        return ScalarText.replace(text, part, by: other).map { .string($0) } ?? .null
    }

    private static func part(_ part: DatePart, _ value: Value) -> Value {
        switch value {
        case .date(let date): ScalarDates.part(part, ofInstant: Timestamp(date).microseconds)
        case .string(let text): ScalarDates.part(part, ofText: text)
        case .null, .bool, .integer, .number, .decimal, .data, .json: .null
        }
    }

    private static func whole(_ value: Value) -> Int64? {
        switch value {
        case .integer(let whole): whole
        case .number(let number): Int64(exactly: number)
        case .null, .bool, .decimal, .string, .date, .data, .json: nil
        }
    }
}
