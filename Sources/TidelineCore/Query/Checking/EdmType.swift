// EdmType: the types that `cast` and `isof` accept.

/// A primitive OData type in `cast` or `isof`.
package enum EdmType: String, Hashable, Sendable, CaseIterable {
    case boolean = "Edm.Boolean"
    case byte = "Edm.Byte"
    case sbyte = "Edm.SByte"
    case int16 = "Edm.Int16"
    case int32 = "Edm.Int32"
    case int64 = "Edm.Int64"
    /// Treated as a double, like numbers with the suffix `f`.
    case single = "Edm.Single"
    case double = "Edm.Double"
    case decimal = "Edm.Decimal"
    case string = "Edm.String"
    case guid = "Edm.Guid"
    case date = "Edm.Date"
    case timeOfDay = "Edm.TimeOfDay"
    /// The name in v3.
    case time = "Edm.Time"
    /// The name in v3.
    case dateTime = "Edm.DateTime"
    case dateTimeOffset = "Edm.DateTimeOffset"
    case binary = "Edm.Binary"

    package var type: ExpressionType {
        switch self {
        case .boolean: .boolean
        case .byte, .sbyte, .int16, .int32, .int64: .integer
        case .single, .double: .number
        case .decimal: .decimal
        case .string: .string
        case .guid: .guid
        case .date: .date
        case .timeOfDay, .time: .time
        case .dateTime, .dateTimeOffset: .dateTime
        case .binary: .binary
        }
    }

    /// The range of the integers of this type; nil for other types.
    package var range: ClosedRange<Int64>? {
        switch self {
        case .byte: 0...255
        case .sbyte: -128...127
        case .int16: -32_768...32_767
        case .int32: -2_147_483_648...2_147_483_647
        case .int64: .min ... .max
        case .boolean, .single, .double, .decimal, .string, .guid, .date, .timeOfDay, .time,
            .dateTime, .dateTimeOffset, .binary:
            nil
        }
    }

    /// Returns whether at least some values of the source type can be converted to this type.
    func canBeCast(from source: ExpressionType) -> Bool {
        switch (source, type) {
        case (.null, _), (.any, _): true
        case (.json, _): false
        case (_, .string), (.string, _): true
        case (.dateTime, .date), (.dateTime, .time), (.date, .dateTime): true
        case (let source, let target): source == target || source.isNumeric && target.isNumeric
        }
    }

    /// Returns whether a value of the source type may also have this type.
    func mayHold(_ source: ExpressionType) -> Bool {
        source == .null || source == .any || source == type
            || source.isEnumeration && self == .string
    }
}
