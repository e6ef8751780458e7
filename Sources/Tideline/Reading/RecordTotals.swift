// RecordTotals: sums, averages and groups of records, typed by the properties of their model.

public import Foundation
import TidelineCore

/// A type whose values can be added: a number, or an optional number.
///
/// Null values are not added and do not count toward an average.
public protocol SummableContent: Sendable {
    /// The type of a sum: `Int` for integers, otherwise `Double` or `Decimal`.
    associatedtype Sum: Sendable
    /// The type of an average: `Decimal` for decimals, otherwise `Double`.
    associatedtype Average: Sendable

    /// Returns the sum from totals, which is zero if they have no values; nil if the sum is out of range.
    static func sum(of totals: RowTotals) -> Sum?

    /// Returns the average from totals with at least one value; nil if the average is out of range.
    static func average(of totals: RowTotals) -> Average?
}

extension SummableContent where Self: FixedWidthInteger {
    /// Returns the sum; nil if it does not fit into `Int`.
    public static func sum(of totals: RowTotals) -> Int? {
        totals.sum.isNull ? 0 : totals.sum.asInteger(Int.self)
    }

    /// Returns the average.
    public static func average(of totals: RowTotals) -> Double? {
        let sum: Double? =
            switch totals.sum {
            case .integer(let sum): Double(sum)
            case .number(let sum): sum
            case .decimal(let sum): Double("\(sum)")
            case .null, .bool, .string, .date, .data, .json: nil
            }
        return sum.map { $0 / Double(totals.count) }
    }
}

extension Int: SummableContent {}
extension Int8: SummableContent {}
extension Int16: SummableContent {}
extension Int32: SummableContent {}
extension Int64: SummableContent {}
extension UInt: SummableContent {}
extension UInt8: SummableContent {}
extension UInt16: SummableContent {}
extension UInt32: SummableContent {}
extension UInt64: SummableContent {}

extension SummableContent where Self: BinaryFloatingPoint {
    /// Returns the sum.
    public static func sum(of totals: RowTotals) -> Double? {
        totals.sum.isNull ? 0 : totals.sum.asDouble()
    }

    /// Returns the average.
    public static func average(of totals: RowTotals) -> Double? {
        totals.sum.asDouble().map { $0 / Double(totals.count) }
    }
}

extension Double: SummableContent {}
extension Float: SummableContent {}

extension Decimal: SummableContent {
    /// Returns the sum.
    public static func sum(of totals: RowTotals) -> Decimal? {
        totals.sum.isNull ? 0 : totals.sum.asDecimal()
    }

    /// Returns the average.
    public static func average(of totals: RowTotals) -> Decimal? {
        totals.sum.asDecimal().map { $0 / Decimal(totals.count) }
    }
}

extension Optional: SummableContent where Wrapped: SummableContent {
    /// Returns the sum of the values that are not nil.
    public static func sum(of totals: RowTotals) -> Wrapped.Sum? { Wrapped.sum(of: totals) }

    /// Returns the average of the values that are not nil.
    public static func average(of totals: RowTotals) -> Wrapped.Average? {
        Wrapped.average(of: totals)
    }
}

/// A request for totals of a model's column, and the types of its result.
struct RecordTotals<Record: SyncRecord> {
    private let schema: RecordSchema

    init() throws { schema = try RecordSchema.of(Record.self) }

    func column(_ path: PartialKeyPath<Record>) throws -> String {
        try schema.column(for: path)
    }

    /// Returns the sum in totals.
    func sum<Content: SummableContent>(
        _ totals: RowTotals?,
        of column: String,
        _ type: Content.Type
    ) throws -> Content.Sum {
        guard let sum = Content.sum(of: totals ?? RowTotals(count: 0)) else {
            let name = "\(Content.Sum.self)"
            throw SyncError.sumTooLarge(column, table: Record.tableName, type: name)
        }
        return sum
    }

    /// Returns the average from totals; nil if they have no values.
    func average<Content: SummableContent>(
        _ totals: RowTotals?,
        of column: String,
        _ type: Content.Type
    ) throws -> Content.Average? {
        guard let totals, totals.count > 0 else { return nil }
        guard let average = Content.average(of: totals) else {
            let name = "\(Content.Average.self)"
            throw SyncError.sumTooLarge(column, table: Record.tableName, type: name)
        }
        return average
    }

    /// Returns the results of groups, by the values of a property.
    ///
    /// Two groups whose keys are equal in Swift are merged.
    func byKey<Key: Decodable & Hashable, Result>(
        _ totals: [RowTotals],
        _ column: String,
        _ type: Key.Type,
        _ result: (RowTotals) throws -> Result
    ) throws -> [Key: Result] {
        var merged: [Key: RowTotals] = [:]
        for one in totals {
            let key = try value(one.group, of: column, as: type)
            merged[key] = merged[key].map { RowTotals.joined($0, one) } ?? one
        }
        return try merged.mapValues(result)
    }

    /// Returns the value of a column as the property's type.
    func value<Content: Decodable>(
        _ value: Value,
        of column: String,
        as type: Content.Type
    ) throws -> Content {
        do {
            return try ScalarDecoder(value: value).decode(type)
        } catch {
            throw SyncError.valueDoesNotFit(
                table: Record.tableName,
                column: column,
                expected: (error as? TypeMismatch)?.expected ?? "of the type \(type)"
            )
        }
    }

    /// Returns the query for the record with the smallest or the largest value of a column,
    /// ignoring nil.
    func extreme(
        _ query: Query<Record>,
        _ column: String,
        isAscending: Bool
    ) -> Query<Record> {
        var query = query
        if !schema.neverNil.contains(column) {
            let exists = Filter.differs(column, from: .null)
            query.filter = query.filter.map { $0 && exists } ?? exists
        }
        query.order = [SortKey(column: column, ascending: isAscending)]
        (query.limit, query.offset, query.includesTotalCount) = (1, 0, false)
        // The selection may lack the column.
        query.fields = nil
        return query
    }
}

extension RowTotals {
    /// Returns the combined totals of two groups.
    static func joined(_ one: RowTotals, _ two: RowTotals) -> RowTotals {
        var sum = TotalsSum()
        sum.add(one.sum)
        sum.add(two.sum)
        return RowTotals(
            group: one.group,
            count: one.count + two.count,
            sum: sum.count == 0 ? .null : sum.sum
        )
    }
}

extension SyncError {
    static func sumTooLarge(_ column: String, table: String, type: String) -> SyncError {
        SyncError(
            .sumTooLarge,
            """
            The sum of column '\(column)' of table '\(table)' does not fit into \(type). Use a \
            column of type Decimal or Double, or sum fewer rows at a time.
            """
        )
    }
}
