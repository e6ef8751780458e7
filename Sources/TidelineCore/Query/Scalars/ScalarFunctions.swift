// ScalarFunctions: one implementation of each query function, used by FilterEvaluator and, through
// SQLFunctions, by the database.

import Foundation

package enum ScalarFunctions {
    /// Applies a function: conditions on null are false, other functions of null are null.
    ///
    /// `now` has no value here. `pattern` is that of a `matchesPattern`, if it is already compiled.
    package static func apply(
        _ function: Function,
        _ arguments: [Value],
        _ watch: EvaluationWatch? = nil,
        pattern: TextPattern? = nil
    ) -> Value {
        if function == .matchesPattern {
            guard let text = arguments[0].text, let other = arguments[1].text else { return false }
            return .bool((pattern ?? .search(other)).isFound(in: text, watch))
        }
        if function.isCondition { return .bool(condition(function, arguments)) }
        guard let first = arguments.first else { return .null }
        switch function {
        case .floor, .ceiling, .round, .roundAway: return ScalarNumbers.round(function, first)
        case .year, .month, .day, .hour, .minute, .second, .fractionalseconds, .date, .time,
            .totaloffsetminutes:
            return part(function, first)
        case .cast:
            return type(arguments[1]).map { ScalarCasts.cast(first, to: $0) } ?? .null
        default: return text(function, arguments)
        }
    }

    private static func type(_ name: Value) -> EdmType? {
        name.text.flatMap { EdmType(rawValue: $0) }
    }

    private static func condition(
        _ function: Function,
        _ arguments: [Value]
    ) -> Bool {
        if function == .isof {
            return type(arguments[1]).map { ScalarCasts.isOf(arguments[0], $0) } ?? false
        }
        guard let text = arguments[0].text, let part = arguments[1].text else { return false }
        return switch function {
        case .contains: ScalarText.contains(text, part)
        case .localizedContains: text.localizedStandardContains(part)
        case .startswith: ScalarText.starts(text, with: part)
        case .has: text.utf8.elementsEqual(part.utf8)
        default: ScalarText.ends(text, with: part)
        }
    }

    private static func part(_ function: Function, _ value: Value) -> Value {
        switch value {
        case .date(let date):
            ScalarDates.part(function, ofInstant: Timestamp(date).microseconds)
        case .string(let text): ScalarDates.part(function, ofText: text)
        default: .null
        }
    }

    private static func text(_ function: Function, _ arguments: [Value]) -> Value {
        guard let text = arguments[0].text else { return .null }
        switch function {
        case .length: return .integer(ScalarText.length(text))
        case .tolower: return .string(ScalarText.lower(text))
        case .toupper: return .string(ScalarText.upper(text))
        case .trim: return .string(ScalarText.trim(text))
        case .substring:
            guard let start = whole(arguments[1]) else { return .null }
            guard arguments.count > 2 else {
                return .string(ScalarText.substring(text, from: start, count: nil))
            }
            guard let count = whole(arguments[2]) else { return .null }
            return .string(ScalarText.substring(text, from: start, count: count))
        case .indexof:
            guard let part = arguments[1].text else { return .null }
            return .integer(ScalarText.index(of: part, in: text))
        case .concat:
            guard let other = arguments[1].text else { return .null }
            return ScalarText.concat(text, other).map { .string($0) } ?? .null
        case .replace:
            guard let part = arguments[1].text, let other = arguments[2].text else { return .null }
            return ScalarText.replace(text, part, by: other).map { .string($0) } ?? .null
        default: return .null
        }
    }

    private static func whole(_ value: Value) -> Int64? {
        switch value {
        case .integer(let whole): whole
        case .number(let number): Int64(exactly: number)
        default: nil
        }
    }
}
