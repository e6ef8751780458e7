// ValueOrder: compares two values in memory. SQL compares the stored forms in the same way.

import Foundation

/// The order of two values in memory, which agrees with the order in SQL.
package enum ValueOrder {
    /// Returns -1, 0, or 1; nil if a value is null or the kinds cannot be compared.
    package static func compare(_ left: Value, _ right: Value) -> Int? {
        switch left {
        case .null: return nil
        case .bool(let one):
            guard case .bool(let two) = right else { return nil }
            return order(one ? 1 : 0, two ? 1 : 0)
        case .integer(let one):
            switch right {
            case .integer(let two): return order(one, two)
            case .number(let two): return order(one, two)
            case .decimal(let two): return order(Decimal(one), two)
            case .null, .bool, .string, .date, .data, .json: return nil
            }
        case .number(let one):
            switch right {
            case .integer(let two): return -order(two, one)
            case .number(let two): return order(one, two)
            case .decimal(let two): return order(one, DecimalText.double(two))
            case .null, .bool, .string, .date, .data, .json: return nil
            }
        case .decimal(let one):
            switch right {
            case .integer(let two): return order(one, Decimal(two))
            case .number(let two): return order(DecimalText.double(one), two)
            case .decimal(let two): return order(one, two)
            case .null, .bool, .string, .date, .data, .json: return nil
            }
        // Rows without a schema store instants as text.
        case .string(let one):
            switch right {
            case .string(let two): return text(one, two)
            case .date(let two): return Timestamp(one).map { order($0, Timestamp(two)) }
            case .null, .bool, .integer, .number, .decimal, .data, .json: return nil
            }
        case .date(let one):
            switch right {
            case .date(let two): return order(Timestamp(one), Timestamp(two))
            case .string(let two): return Timestamp(two).map { order(Timestamp(one), $0) }
            case .null, .bool, .integer, .number, .decimal, .data, .json: return nil
            }
        case .data(let one):
            guard case .data(let two) = right else { return nil }
            return bytes(one, two)
        case .json(let one):
            guard case .json(let two) = right else { return nil }
            return text(one.text, two.text)
        }
    }

    /// Returns whether the values are equal or both null.
    package static func equal(_ left: Value, _ right: Value) -> Bool {
        if left.isNull || right.isNull { return left.isNull && right.isNull }
        return compare(left, right) == 0
    }

    /// Returns the order for sorting: null first, and values of different kinds by kind.
    package static func sort(_ left: Value, _ right: Value) -> Int {
        if let order = compare(left, right) { return order }
        return order(rank(left), rank(right))
    }

    private static func rank(_ value: Value) -> Int {
        switch value {
        case .null: 0
        case .bool: 1
        case .integer, .number, .decimal: 2
        case .date: 3
        case .string: 4
        case .data: 5
        case .json: 6
        }
    }

    /// Returns the order of two strings by Unicode scalar value, which equals the order of their
    /// UTF-8 bytes.
    package static func text(_ one: String, _ two: String) -> Int {
        let fast = one.utf8.withContiguousStorageIfAvailable { first in
            two.utf8.withContiguousStorageIfAvailable { bytes($0, after: first) }
        }
        if case let order?? = fast { return order }
        if one.utf8.elementsEqual(two.utf8) { return 0 }
        return one.utf8.lexicographicallyPrecedes(two.utf8) ? -1 : 1
    }

    private static func bytes(
        _ second: UnsafeBufferPointer<UInt8>,
        after first: UnsafeBufferPointer<UInt8>
    ) -> Int {
        let common = min(first.count, second.count)
        var index = 0
        while index < common, first[index] == second[index] { index += 1 }
        guard index == common else { return first[index] < second[index] ? -1 : 1 }
        return order(first.count, second.count)
    }

    private static func bytes(_ one: Data, _ two: Data) -> Int {
        if one == two { return 0 }
        return one.lexicographicallyPrecedes(two) ? -1 : 1
    }

    private static func order<T: Comparable>(_ one: T, _ two: T) -> Int {
        one < two ? -1 : one > two ? 1 : 0
    }

    /// Compares exactly, that is, without rounding the integer to a double.
    private static func order(_ whole: Int64, _ number: Double) -> Int {
        if number >= 9_223_372_036_854_775_808 { return -1 }
        guard number >= -9_223_372_036_854_775_808 else { return 1 }
        let floor = number.rounded(.down)
        let order = order(whole, Int64(floor))
        return order == 0 && number > floor ? -1 : order
    }
}
