// RowTotals: the counts and sums of a table's rows that a store returns.

import Foundation
public import TidelineCore

/// A request for the row count and the sum of a column, for all rows or per value of another
/// column.
public struct TotalsQuery: Sendable {
    /// A column of a table, with the value for rows that lack one.
    public struct Column: Sendable {
        /// The column's name, as the table declares it.
        public var name: String
        /// The column's type.
        public var type: ColumnType
        /// The value that is used for a row without a value; `.null` if there is none.
        public var absent: Value

        /// Creates a column.
        public init(_ name: String, _ type: ColumnType, absent: Value = .null) {
            (self.name, self.type, self.absent) = (name, type, absent)
        }

        /// Returns the row's value.
        ///
        /// A value that does not fit the column counts as missing, as it does in conditions. A
        /// number is converted to the column's kind.
        func value(of row: Row) -> Value {
            let stored = row[name] ?? .null
            let value = stored.isNull || !CellKind(type).holds(stored) ? absent : stored
            switch (type, value) {
            case (.number, .integer(let integer)): return .number(Double(integer))
            case (.number, .decimal(let decimal)): return .number(DecimalText.double(decimal))
            case (.decimal, .integer(let integer)): return .decimal(Decimal(integer))
            case (.string, _), (.integer, _), (.number, _), (.decimal, _), (.boolean, _),
                (.dateTime, _), (.date, _), (.time, _), (.guid, _), (.binary, _), (.json, _),
                (.enumeration, _):
                return value
            }
        }
    }

    /// The condition on the rows; nil for all rows.
    public var filter: Filter?
    /// The column whose values are added; nil to only count the rows.
    ///
    /// The column's type must be integer, number, or decimal.
    public var value: Column?
    /// The column by whose values the rows are grouped; nil for a single group of all rows.
    public var group: Column?

    /// Creates a request.
    public init(filter: Filter? = nil, value: Column? = nil, group: Column? = nil) {
        (self.filter, self.value, self.group) = (filter, value, group)
    }
}

/// The totals of the rows of one group.
public struct RowTotals: Sendable, Hashable {
    /// The value that the rows of the group share; `.null` for rows without a value, or if there
    /// are no groups.
    public var group: Value
    /// The number of rows; if values are added, only rows with a value are counted.
    public var count: Int
    /// The sum of the values, in the column's kind; `.null` if there are no values.
    ///
    /// If a sum of integers does not fit in 64 bits, it is an exact `.decimal`.
    public var sum: Value

    /// Creates totals.
    public init(group: Value = .null, count: Int, sum: Value = .null) {
        (self.group, self.count, self.sum) = (group, count, sum)
    }
}

/// An accumulator for the values of one group.
struct TotalsSum {
    private(set) var count = 0
    private var exact = Decimal(0)
    private var real = 0.0
    /// Whether all values are integers.
    private var isWhole = true
    private var isDecimal = false

    /// Adds a value; nil counts the row and adds nothing.
    mutating func add(_ value: Value?) {
        switch value {
        case nil: count += 1
        case .integer(let integer):
            count += 1
            exact += Decimal(integer)
            real += Double(integer)
        case .number(let number):
            count += 1
            isWhole = false
            real += number
        case .decimal(let decimal):
            count += 1
            isDecimal = true
            exact += decimal
        case .null, .bool, .string, .date, .data, .json: break
        }
    }

    /// The sum.
    var sum: Value {
        if isDecimal { return .decimal(exact) }
        return isWhole ? Self.integer(exact) : .number(real)
    }

    /// Returns a whole number as an integer, or as a decimal if it is too large for an integer.
    static func integer(_ whole: Decimal) -> Value {
        Int64("\(whole)").map { .integer($0) } ?? .decimal(whole)
    }
}

extension TotalsQuery {
    /// Returns the totals of rows that already match the filter.
    func totals(of rows: [Row]) -> [RowTotals] {
        var sums: [Value: TotalsSum] = [:]
        var order: [Value] = []
        if group == nil {
            sums[.null] = TotalsSum()
            order.append(.null)
        }
        for row in rows {
            let key = group?.value(of: row) ?? .null
            if sums[key] == nil { order.append(key) }
            sums[key, default: TotalsSum()].add(value?.value(of: row))
        }
        return order.map { key in
            let sum = sums[key] ?? TotalsSum()
            let isEmpty = value == nil || sum.count == 0
            return RowTotals(group: key, count: sum.count, sum: isEmpty ? .null : sum.sum)
        }
    }
}

extension LocalStoreReader {
    /// Reads the rows and computes their totals in memory.
    ///
    /// - Throws: The errors of ``LocalStoreReader/rows(_:in:)``.
    public func totals(_ query: TotalsQuery, in table: String) throws -> [RowTotals] {
        query.totals(of: try rows(TableQuery(filter: query.filter), in: table))
    }
}
