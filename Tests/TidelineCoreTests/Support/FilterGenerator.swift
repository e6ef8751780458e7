// FilterGenerator: a generator of random rows and well-typed filters for a table with all column types.

import Foundation
import TidelineCore
import TidelineTestKit

struct FilterGenerator {
    var random: SeededGenerator
    let dialect: ODataDialect
    let unit: FilterRenderer.DateUnit
    /// Whether conditions read JSON documents, which v3 cannot express.
    var readsDocuments = false
    /// The number of conditions on elements around the one that is generated.
    var elementsAround = 0

    static let members = ["low", "middle", "high"]

    static let schema = TableSchema(
        name: "t",
        columns: [
            ColumnDefinition("s1", .string), ColumnDefinition("s2", .string),
            ColumnDefinition("i1", .integer), ColumnDefinition("i2", .integer),
            ColumnDefinition("n1", .number), ColumnDefinition("n2", .number),
            ColumnDefinition("d1", .decimal), ColumnDefinition("d2", .decimal),
            ColumnDefinition("b1", .boolean), ColumnDefinition("b2", .boolean),
            ColumnDefinition("t1", .dateTime), ColumnDefinition("t2", .dateTime),
            ColumnDefinition("day", .date), ColumnDefinition("clock", .time),
            ColumnDefinition("guid", .guid), ColumnDefinition("bytes", .binary),
            ColumnDefinition("e1", .enumeration(members)),
            ColumnDefinition("e2", .enumeration(members)),
            ColumnDefinition("j1", .json), ColumnDefinition("l1", .json),
        ]
    )

    mutating func row(_ number: Int) -> Row {
        var row: Row = ["id": .string("r\(number)")]
        for column in Self.schema.columns {
            let type = ExpressionType(column.type)
            var value = random.chance(1, in: 4) ? .null : literal(type)
            if case .date(let date) = value, unit == .milliseconds {
                value = .date(Timestamp(microseconds: Timestamp(date).milliseconds * 1000).date)
            }
            if type.isEnumeration, random.chance(1, in: 8) { value = "unknown" }
            row[column.name] = value
        }
        return row
    }

    /// Returns a value of a type, from a small pool so that values are often equal.
    mutating func literal(_ type: ExpressionType) -> Value {
        switch type {
        case .boolean: return .bool(random.chance(1, in: 2))
        case .integer: return .integer(random.pick([0, 1, -1, 2, 3, 7, -7, 100, .max, .min]))
        case .number:
            return .number(random.pick([0, 1, -1, 0.5, 2.5, -2.5, 3.1, 7, 1e15, 1e300, -1e-300]))
        case .decimal:
            let texts = [
                "0", "1", "-1", "0.1", "0.25", "2.5", "-2.5", "3.1", "7", "99999.99999", "1e37",
                "1e-30",
                "12345678901234567890123456789012345678",
            ]
            return decimal(random.pick(texts))
        case .dateTime:
            let starts: [Int64] = [
                0, 1_614_928_089_120_000, 1_614_928_089_120_500, -14_182_940_000_000,
                1_614_928_089_121_000, 1_614_928_089_120_001,
            ]
            return .date(Timestamp(microseconds: random.pick(starts)).date)
        case .date: return .string(random.pick(["1969-07-20", "2020-02-29", "2021-03-05"]))
        case .time:
            return .string(random.pick(["00:00:00.000", "07:08:09.120", "07:08:09.120500"]))
        case .guid:
            return .string("0123456\(random.below(3))-89ab-cdef-0123-456789abcdef")
        case .binary: return .data(Data(random.pick([[], [0], [0, 255], [1], [255]])))
        case .enumeration(let members): return .string(random.pick(members))
        case .json: return .json(JSON(checked: random.pick(Self.documents)))
        default:
            return .string(
                random.pick([
                    "", "a", "A", "ab", "b%_", "O'Hara", "é", "e\u{301}", "ß", "\u{1F600}", "a\0b",
                    " a ", "ab ab", "\u{D7FF}", "\u{10FFFF}", "2", "ŻÓŁW", "\\",
                ])
            )
        }
    }

    private mutating func node(_ kind: QueryExpression.Kind) -> QueryExpression {
        QueryExpression(kind)
    }

    private mutating func column(_ type: ExpressionType) -> QueryExpression {
        let fitting = Self.schema.columns.filter { ExpressionType($0.type) == type }
        return node(.field(random.pick(fitting).name))
    }

    /// Returns a column, a literal, or sometimes null.
    private mutating func leaf(_ type: ExpressionType) -> QueryExpression {
        if random.chance(1, in: 20) { return node(.value(.null)) }
        if random.chance(1, in: 2) { return column(type) }
        return node(.value(literal(type)))
    }

    private static let compared: [ExpressionType] = [
        .string, .integer, .number, .decimal, .dateTime, .date, .time, .guid, .binary,
        .enumeration(members), .integer, .string,
    ]

    mutating func condition(_ depth: Int) -> QueryExpression {
        guard depth > 0 else { return column(.boolean) }
        switch random.below(10) {
        case 0: return node(.all((0...random.below(3) + 1).map { _ in condition(depth - 1) }))
        case 1: return node(.any((0...random.below(3) + 1).map { _ in condition(depth - 1) }))
        case 2, 3: return node(.not(condition(depth - 1)))
        case 4: return leaf(.boolean)
        case 5:
            return test(depth)
        case 6:
            let sides = [condition(depth - 1), condition(depth - 1)]
            return node(.compare(random.pick([.eq, .ne]), sides[0], sides[1]))
        case 8 where readsDocuments: return documentCondition(depth)
        case 7 where dialect == .v4:
            let type = random.pick(Self.compared)
            let operand = value(type, depth - 1)
            return node(.isIn(operand, (0...random.below(3)).map { _ in leaf(type) }))
        default: return comparison(depth)
        }
    }

    private static let types: [ExpressionType] = [
        .string, .integer, .number, .decimal, .boolean, .dateTime, .date, .time, .guid, .binary,
        .enumeration(members),
    ]

    /// Returns a call of a function with a Boolean result.
    private mutating func test(_ depth: Int) -> QueryExpression {
        switch random.below(6) {
        case 0:
            let pattern = random.pick(["^a", "b?$", "[aA]b", "^$", ".\\b", "(a|b)+ ?"])
            let parts = [value(.string, depth - 1), node(.value(.string(pattern)))]
            return node(.call(.matchesPattern, parts))
        case 1:
            return typed(.isof, column(random.pick(Self.types)), random.pick(EdmType.allCases))
        case 2 where dialect == .v4:
            let member = node(.value(.string(random.pick(Self.members))))
            return node(.call(.has, [column(.enumeration(Self.members)), member]))
        default:
            let function = random.pick([Function.contains, .startswith, .endswith])
            return node(.call(function, [value(.string, depth - 1), value(.string, depth - 1)]))
        }
    }

    private mutating func typed(
        _ function: Function,
        _ operand: QueryExpression,
        _ type: EdmType
    ) -> QueryExpression {
        node(.call(function, [operand, node(.value(.string(type.rawValue)))]))
    }

    /// Returns a cast to a type from a column that can be cast to it.
    private mutating func cast(_ type: ExpressionType) -> QueryExpression {
        let targets = EdmType.allCases.filter { $0.type == type }
        var sources: [ExpressionType] = type == .string ? Self.types : [.string, type]
        if type.isNumeric { sources += [.integer, .number, .decimal] }
        if type == .date || type == .time { sources.append(.dateTime) }
        if type == .dateTime { sources.append(.date) }
        return typed(.cast, column(random.pick(sources)), random.pick(targets))
    }

    private mutating func comparison(_ depth: Int) -> QueryExpression {
        let type = random.pick(Self.compared)
        var other = type
        if type.isNumeric { other = random.pick([.integer, .number, .decimal]) }
        let (left, right) = (value(type, depth - 1), value(other, depth - 1))
        return node(.compare(random.pick(Comparison.allCases), left, right))
    }

    mutating func value(_ type: ExpressionType, _ depth: Int) -> QueryExpression {
        guard depth > 0, random.chance(1, in: 2) else { return leaf(type) }
        if !type.isEnumeration, random.chance(1, in: 4) { return cast(type) }
        switch type {
        case .string: return text(depth)
        case .integer: return random.chance(1, in: 2) ? arithmetic(type, depth) : count(depth)
        case .number where random.chance(1, in: 8):
            return node(.call(.fractionalseconds, [leaf(random.pick([.time, .dateTime]))]))
        case .number, .decimal: return arithmetic(type, depth)
        case .date: return node(.call(.date, [leaf(.dateTime)]))
        case .time: return node(.call(.time, [leaf(.dateTime)]))
        case .dateTime: return node(.call(.now, []))
        default: return leaf(type)
        }
    }

    private mutating func arithmetic(_ type: ExpressionType, _ depth: Int) -> QueryExpression {
        switch random.below(7) {
        case 0: return node(.negate(value(type, depth - 1)))
        case 1:
            let round = dialect == .v4 ? Function.round : .roundAway
            let function = random.pick([Function.floor, .ceiling, round])
            return node(.call(function, [value(type, depth - 1)]))
        default:
            var other = type
            if type == .number { other = random.pick([.integer, .number]) }
            if type == .decimal { other = random.pick([.integer, .decimal]) }
            var operation = random.pick(Arithmetic.allCases)
            if type == .integer && operation == .divby { operation = .div }
            return node(.arithmetic(operation, value(type, depth - 1), value(other, depth - 1)))
        }
    }

    private mutating func count(_ depth: Int) -> QueryExpression {
        switch random.below(6) {
        case 5: return node(.call(.totaloffsetminutes, [leaf(.dateTime)]))
        case 0: return node(.call(.length, [value(.string, depth - 1)]))
        case 1: return node(.call(.indexof, [value(.string, depth - 1), leaf(.string)]))
        case 2:
            let function = random.pick([Function.hour, .minute, .second])
            return node(.call(function, [leaf(random.chance(1, in: 3) ? .time : .dateTime)]))
        default:
            let function = random.pick([Function.year, .month, .day])
            return node(.call(function, [leaf(random.chance(1, in: 3) ? .date : .dateTime)]))
        }
    }

    private mutating func text(_ depth: Int) -> QueryExpression {
        switch random.below(5) {
        case 0: return node(.call(.concat, [value(.string, depth - 1), leaf(.string)]))
        case 1:
            var arguments = [value(.string, depth - 1), leaf(.integer)]
            if random.chance(1, in: 2) { arguments.append(leaf(.integer)) }
            return node(.call(.substring, arguments))
        case 2:
            let part = node(.value(literal(.string)))
            return node(.call(.replace, [column(.string), part, node(.value(literal(.string)))]))
        default:
            let function = random.pick([Function.tolower, .toupper, .trim])
            return node(.call(function, [value(.string, depth - 1)]))
        }
    }

    mutating func order() -> [SortKey] {
        let types = Self.compared + [.boolean]
        return (0..<random.below(3)).map { _ in
            let type = random.pick(types)
            let key = random.chance(3, in: 4) ? column(type) : value(type, 2)
            return SortKey(key, ascending: random.chance(1, in: 2))
        }
    }
}

extension Row {
    /// The row as a device has it: dates have the milliseconds of the wire, not a server's microseconds.
    var onWire: Row {
        var row = self
        for (name, value) in self where name != SystemColumn.updatedAt {
            guard case .date(let date) = value else { continue }
            row[name] = .date(Timestamp(date).cutToMilliseconds.date)
        }
        return row
    }
}

/// Returns a decimal value, for tables of cases.
func decimal(_ text: String) -> Value {
    DecimalText.parse(text).map { .decimal($0) } ?? .null
}
